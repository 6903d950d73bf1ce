"""Which rank the others wait for at a collective operation, and why."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from gpulint_probe.analysis.cause import Cause
from gpulint_probe.analysis.seen import Seen
from gpulint_probe.analysis.stacks import Arrival, Ranges, Track, Waits, communicates, tally
from gpulint_probe.analysis.words import percent

_ONE_RANK, _FEW = 0.75, 8
"""Fewer arrivals must all have the same rank last."""
_MOSTLY = 0.5
_WITH_CAUSE = {"EVALUATION": Cause.EVALUATION, "CHECKPOINT": Cause.CHECKPOINT, "LOGGING": Cause.LOGGING}


def awaited(seen: Seen, tracks: Sequence[Track], ranges: Ranges, waits: Waits = communicates) -> tuple[Cause, str]:
    """The cause of a wait at a collective operation of ``tracks``, and how it was seen."""
    within = _within(seen.inside.arrivals(waits), ranges)
    waited, late = _late(within, tracks, waits)
    if not late or sum(late.values()) < _MOSTLY * waited:
        return Cause.COMMUNICATION, ""
    last = max(late, key=lambda track: (late[track], -track.pid))
    rank = seen.inside.rank(last)
    name = f"process {last.pid}" if rank is None else f"rank {rank}"
    meanwhile = [(at.start, at.end) for at in within if at.last is last]
    found = tally([last], meanwhile)
    working = {phase: count for phase, count in found.samples.items() if phase.cause != "COMMUNICATION"}
    aside = [phase for phase in working if phase.cause in _WITH_CAUSE]
    for_it = max(aside, key=lambda phase: working[phase], default=None)
    if for_it is None or found.share(for_it) < _MOSTLY * waits(tally(tracks, meanwhile)):
        for_it = None
    phase = for_it or max(working, key=lambda phase: working[phase])
    place = found.place(phase)
    doing = f"{name} was in {phase.name} meanwhile" + (f", at {place}" if place else "")
    if for_it is not None:
        return _WITH_CAUSE[phase.cause], doing
    arrivals = [at for at in seen.inside.arrivals(waits) if at.last is not None]
    share = sum(at.last is last for at in arrivals) / len(arrivals)
    if share >= (_ONE_RANK if len(arrivals) >= _FEW else 1.0):
        return Cause.STRAGGLER, f"{doing}, the last to arrive {percent(share)} of the time"
    return Cause.IMBALANCE, f"{doing}; which rank is last changes"


def _late(within: Sequence[Arrival], tracks: Sequence[Track], waits: Waits) -> tuple[float, dict[Track, float]]:
    """Samples of waiting of ``tracks``, and how many of them while which other rank was the last."""
    waited, late = 0.0, dict[Track, float]()
    for at in within:
        if at.last in tracks:
            continue  # who comes last waits for nobody
        found = tally(tracks, [(at.start, at.end)])
        samples = waits(found) * found.total
        waited += samples
        if at.last is not None:
            late[at.last] = late.get(at.last, 0.0) + samples
    return waited, late


def _within(arrivals: Sequence[Arrival], ranges: Ranges) -> list[Arrival]:
    return [
        at
        for start, end in ranges
        for at in arrivals[bisect_right(arrivals, start, key=_end) : bisect_left(arrivals, end, key=_start)]
    ]


def _start(at: Arrival) -> float:
    return at.start


def _end(at: Arrival) -> float:
    return at.end
