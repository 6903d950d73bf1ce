"""Which rank the others wait for at a collective operation, and why."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gpulint_probe.analysis.cause import Cause
from gpulint_probe.analysis.moments import Moment
from gpulint_probe.analysis.seen import Seen
from gpulint_probe.analysis.stacks import Arrival, Ranges, Tally, Track, Waits, communicates, tally
from gpulint_probe.analysis.words import percent

_ONE_RANK, _FEW = 0.75, 8
"""Fewer arrivals must all have the same rank last."""
_MOSTLY = 0.5
_WITH_CAUSE = {"EVALUATION": Cause.EVALUATION, "CHECKPOINT": Cause.CHECKPOINT, "LOGGING": Cause.LOGGING}
_FEWEST = 6
_WIDER_S = (0.0, 2.0, 30.0, 1e9)
"""Where few moments lie in a wait, those around it count too."""


@dataclass
class _Waits:
    """Samples of waiting, and how many of them while which other rank was late; what that one did meanwhile."""

    samples: float = 0.0
    late: dict[Track, float] = field(default_factory=dict)
    did: dict[Track, Tally] = field(default_factory=dict)
    aside: float = _MOSTLY
    """The least share of that for what is no work."""

    @property
    def last(self) -> Track | None:
        """The rank that was late most often, if any was for most of the time."""
        if not self.late or sum(self.late.values()) < _MOSTLY * self.samples:
            return None
        return max(self.late, key=lambda track: (self.late[track], -track.pid))


def awaited(seen: Seen, tracks: Sequence[Track], ranges: Ranges, waits: Waits = communicates) -> tuple[Cause, str]:
    """The cause of a wait at a collective operation of ``tracks``, and how it was seen."""
    moments = seen.moments
    wider = (_at(_within(moments, _around(ranges, seconds)), tracks, waits) for seconds in _WIDER_S)
    found = next((found for found in wider if found.samples >= _FEWEST), None)
    if found is not None:
        total = _at(moments, seen.inside.drivers, waits).late
        arrivals = [(track, count) for track, count in total.items()]
    else:
        found = _of_pieces(seen, tracks, ranges, waits)
        arrivals = [(at.last, 1.0) for at in seen.inside.arrivals(waits) if at.last is not None]
    if (last := found.last) is None:
        return Cause.COMMUNICATION, ""
    rank = seen.inside.rank(last)
    name = f"process {last.pid}" if rank is None else f"rank {rank}"
    did = found.did[last]
    working = {phase: count for phase, count in did.samples.items() if phase.cause != "COMMUNICATION"}
    aside = [phase for phase in working if phase.cause in _WITH_CAUSE and did.share(phase) >= found.aside]
    phase = max(aside or working, key=lambda phase: working[phase])
    place = did.place(phase)
    doing = f"{name} was in {phase.name} meanwhile" + (f", at {place}" if place else "")
    if phase.cause in _WITH_CAUSE:
        return _WITH_CAUSE[phase.cause], doing
    count = sum(number for _, number in arrivals)
    share = sum(number for track, number in arrivals if track is last) / max(count, 1e-9)
    if share >= (_ONE_RANK if count >= _FEW else 1.0):
        return Cause.STRAGGLER, f"{doing}, the last to arrive {percent(share)} of the time"
    return Cause.IMBALANCE, f"{doing}; which rank is last changes"


def _at(moments: Iterable[Moment], tracks: Sequence[Track], waits: Waits) -> _Waits:
    """By what all ranks did at the same moments: those that do not wait while one of ``tracks`` does are late."""
    found = _Waits()
    for moment in moments:
        waiting = [state.track for state in moment.states if waits(state.found) >= _MOSTLY]
        late = [state for state in moment.states if state.track not in waiting]
        samples = sum(track in tracks for track in waiting)
        found.samples += samples
        for state in late if samples else ():
            found.late[state.track] = found.late.get(state.track, 0.0) + samples / len(late)
            found.did.setdefault(state.track, Tally()).join(state.found)
    return found


def _of_pieces(seen: Seen, tracks: Sequence[Track], ranges: Ranges, waits: Waits) -> _Waits:
    """By which rank waited least in pieces of the time, in which it also did other things."""
    found = _Waits(aside=_MOSTLY / 2)
    for at in _overlapping(seen.inside.arrivals(waits), ranges):
        if at.last in tracks:
            continue  # who comes last waits for nobody
        own = tally(tracks, [(at.start, at.end)])
        samples = waits(own) * own.total
        found.samples += samples
        if at.last is not None:
            found.late[at.last] = found.late.get(at.last, 0.0) + samples
            found.did.setdefault(at.last, Tally()).join(tally([at.last], [(at.start, at.end)]))
    return found


def _around(ranges: Ranges, seconds: float) -> Ranges:
    return [(start - seconds, end + seconds) for start, end in ranges]


def _within(moments: Sequence[Moment], ranges: Ranges) -> list[Moment]:
    return [
        moment
        for start, end in ranges
        for moment in moments[bisect_left(moments, start, key=_time) : bisect_right(moments, end, key=_time)]
    ]


def _overlapping(arrivals: Sequence[Arrival], ranges: Ranges) -> list[Arrival]:
    return [
        at
        for start, end in ranges
        for at in arrivals[bisect_right(arrivals, start, key=_end) : bisect_left(arrivals, end, key=_start)]
    ]


def _time(moment: Moment) -> float:
    return moment.time_s


def _start(at: Arrival) -> float:
    return at.start


def _end(at: Arrival) -> float:
    return at.end
