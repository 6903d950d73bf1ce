"""What limits the input that a GPU waits for: the number of loading processes, the cores, or storage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpulint_probe.analysis.cause import Cause
from gpulint_probe.analysis.seen import Seen
from gpulint_probe.analysis.stacks import FEWEST_SAMPLES, Ranges, Tally, Track, tally
from gpulint_probe.analysis.words import number, percent
from gpulint_probe.inside.phases import AWAITS, IDLE_WORKER, LOADER_STARTS, Phase

_ALL_CORES = 0.8
_NO_CORE = 0.4
"""Share of its time for which a loading thread waits for a free core."""
_LIMITED = 0.1
_IO_STALL = 0.3
_MOSTLY = 0.5
_ENOUGH = 8
_OTHERWISE = {Cause.CHECKPOINT, Cause.LOGGING, Cause.EVALUATION, Cause.COMPILE}
_WIDER_S = (0.0, 2.0, 30.0, 1e9)
"""Loader processes are sampled less often: where few samples lie in a wait, those around it count too."""


def input_cause(seen: Seen, tracks: Sequence[Track], phase: Phase, ranges: Ranges) -> tuple[Cause, str]:
    """The cause, and how it was seen. ``tracks`` are the threads that wait in ``phase``."""
    workers = seen.inside.workers_of(tracks)
    inside = _enough(workers, ranges, _ENOUGH)
    own = tally(tracks, ranges)
    computes = own.running[phase] >= _MOSTLY * own.samples[phase]
    if inside.total >= FEWEST_SAMPLES:
        idle = sum(count for phase, count in inside.samples.items() if phase.name == IDLE_WORKER)
        if idle >= (1 - _MOSTLY / 2) * inside.total and computes and phase.name not in (AWAITS, LOADER_STARTS):
            cause, reason = _limit(seen, own, [phase], ranges, 0)
            return cause, f"{reason}; its {number(len(workers), 'loader process')} mostly had nothing to do"
        if idle >= (1 - _MOSTLY / 2) * inside.total:
            return Cause.INPUT, f"its {number(len(workers), 'loader process')} mostly had nothing to do"
        loading = [of for of in inside.samples if of.name != IDLE_WORKER]
        return _limit(seen, inside, loading, ranges, len(workers))
    if (phase.name == AWAITS or not computes) and (others := _of_others(seen, tracks, phase, ranges)):
        return others
    return _limit(seen, own, [phase], ranges, 0)


def awaited_thread(seen: Seen, tracks: Sequence[Track], ranges: Ranges) -> tuple[Cause, str]:
    """The cause where a thread waits for another one that makes no input for it, and how it was seen."""
    other = _busiest(seen, tracks, ranges)
    if other is None:
        return Cause.HOST, ""
    if other.cause:
        return other.cause, other.text
    busy = not other.child and _computes(other.found) >= _MOSTLY
    return (Cause.THREADS if busy else Cause.HOST), other.text


def _of_others(seen: Seen, tracks: Sequence[Track], phase: Phase, ranges: Ranges) -> tuple[Cause, str] | None:
    """Return what limits other threads and processes of the job that prepare data while ``tracks`` wait in ``phase``;
    None where these do not wait for them. Whether a thread that is not the main one ran at a sample is not known."""
    other = _busiest(seen, tracks, ranges, threads=phase.name == AWAITS)
    if other is None:
        return None
    found, who = other.found, other.text
    total = max(found.total, 1e-9)
    computes = _computes(found) >= _MOSTLY
    if phase.name != AWAITS and not computes:
        return None
    if other.cause:
        return other.cause, who
    reads = sum(found.storage.values()) + sum(found.disk.values())
    if reads >= _MOSTLY * total and not computes:
        return Cause.INPUT_STORAGE, f"{who}, waited for reads"
    if not computes and _idle(found) >= _MOSTLY * total:
        return None
    if not computes and found.total - reads - _idle(found) < _MOSTLY * total:
        return Cause.INPUT, f"{who}, prepared data a part of the time"
    if reason := no_core(seen, found, ranges):
        return Cause.INPUT_CPU, f"{reason}; {who}, prepared data"
    return Cause.INPUT_PROCESS, f"{who}, prepared data without a pause, while other cores were free"


@dataclass(frozen=True)
class _Other:
    """A thread that others wait for; ``cause`` if it does something that a step needs not."""

    found: Tally
    text: str
    child: bool
    cause: Cause | None


def _busiest(seen: Seen, tracks: Sequence[Track], ranges: Ranges, *, threads: bool = True) -> _Other | None:
    """The other thread, or the process that they started, that had most to do."""
    children = seen.inside.children_of(tracks)
    others = [other for track in tracks for other in seen.inside.beside(track)] if threads else []
    found = [(_enough([track], ranges, FEWEST_SAMPLES), track) for track in [*others, *children]]
    busy = [
        (_computes(of), of.total - _idle(of), track.pid, track.thread, of, track) for of, track in found if of.total
    ]
    if not busy:
        return None
    *_, of, track = max(busy, key=lambda entry: entry[:4])
    phase = max(of.samples, key=lambda phase: of.samples[phase])
    place = of.place(phase)
    child = track in children
    who = f"process {track.pid}" if child else f"the thread {track.thread}"
    does = Cause[phase.cause] if phase.cause and of.share(phase) >= _MOSTLY else None
    return _Other(of, who + (f", at {place}" if place else ""), child, does if does in _OTHERWISE else None)


def _computes(found: Tally) -> float:
    """Share of its time in which a thread uses a core, or would if one was free as far as that was seen."""
    ran = sum(found.running.values()) / max(found.total, 1e-9)
    return max(ran, found.cpu_s / max(found.seconds, 1e-9))


def _idle(found: Tally) -> float:
    """Samples of a thread that itself waits for others."""
    return sum(count for phase, count in found.samples.items() if phase.name in (AWAITS, IDLE_WORKER))


def _enough(tracks: Sequence[Track], ranges: Ranges, fewest: int) -> Tally:
    """Count what threads did over stretches of time, or around them where they have fewer samples."""
    wider = (tally(tracks, _around(ranges, seconds)) for seconds in _WIDER_S)
    return next((found for found in wider if found.total >= fewest), tally(tracks, ranges))


def _around(ranges: Ranges, seconds: float) -> Ranges:
    """The time from the first to the last of the ranges, and so much before and after; the ranges alone for 0 s."""
    return [(ranges[0][0] - seconds, ranges[-1][1] + seconds)] if seconds else ranges


def _limit(seen: Seen, found: Tally, loading: Sequence[Phase], ranges: Ranges, workers: int) -> tuple[Cause, str]:
    """Return what limits the threads that load data; ``workers`` counts loader processes (0: the main process)."""
    samples = sum(found.samples[phase] for phase in loading)
    running = sum(found.running[phase] for phase in loading) / max(samples, 1e-9)
    waiting = sum(found.storage[phase] + found.disk[phase] for phase in loading) / max(samples, 1e-9)
    who = "the main process" if not workers else "the loader process" if workers == 1 else f"{workers} loader processes"
    place = max(((found.samples[phase], found.place(phase)) for phase in loading), default=(0, ""))[1]
    at = f", at {place}" if place else ""
    if running >= _MOSTLY:
        if reason := no_core(seen, found, ranges):
            return Cause.INPUT_CPU, f"{reason}, loading in {who}{at}"
        return Cause.INPUT_PROCESS, f"{who} loaded without a pause{at}, while other cores were free"
    if waiting >= _MOSTLY / 2:
        return Cause.INPUT_STORAGE, f"{who} waited for reads {percent(min(1.0, waiting))} of the time{at}"
    stalled = seen.host.mean("io_stalled", ranges)
    if stalled is not None and stalled >= _IO_STALL:
        return Cause.INPUT_STORAGE, f"tasks of the job waited for storage {percent(stalled)} of the time{at}"
    if not running and (busy := seen.host.one_busy(ranges, _ALL_CORES)):  # a program that it started
        return Cause.INPUT_PROCESS, busy
    return Cause.INPUT, f"{who} waited{at}" if place else ""


def no_core(seen: Seen, found: Tally, ranges: Ranges) -> str:
    """Says how the cores are exhausted; nothing if they are not."""
    limited = seen.host.mean("cpu_limited", ranges)
    if limited is not None and limited >= _LIMITED:
        return f"the control group's CPU limit held the job back {percent(limited)} of the time"
    cores = seen.host.cpu(ranges)
    if cores is not None and cores >= _ALL_CORES:
        return f"the job's CPU cores are {percent(cores)} busy"
    if found.seconds and found.delay_s >= _NO_CORE * found.seconds:
        return f"no core was free {percent(min(1.0, found.delay_s / found.seconds))} of the time"
    return ""
