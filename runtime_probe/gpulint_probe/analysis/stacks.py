"""The stacks of a recording by time: which process feeds which GPU, and what its thread was doing when."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from gpulint_probe.inside.phases import HELPER, Phase, Reading
from gpulint_probe.inside.readings import read_stacks
from gpulint_probe.inside.records import AllocatorSample, StackCounts
from gpulint_probe.recording import Recording

FEWEST_SAMPLES = 3
"""Fewer say nothing."""
_SPREAD = 0.3
"""The last rank to arrive waits less than the others, by this share of the time."""
_SIGMA = 1.5
"""Standard errors by which the shares of few samples have to differ."""
_ENOUGH = 5
BACKWARD = "backward"
Ranges = Sequence[tuple[float, float]]


@dataclass
class Tally:
    """Samples of threads over some time, by phase; fractions where a window lies in it in part."""

    samples: Counter[Phase] = field(default_factory=Counter)
    running: Counter[Phase] = field(default_factory=Counter)
    disk: Counter[Phase] = field(default_factory=Counter)
    storage: Counter[Phase] = field(default_factory=Counter)
    """Those that neither ran nor were outside a call that reads."""
    places: Counter[tuple[Phase, str]] = field(default_factory=Counter)
    seconds: float = 0.0
    cpu_s: float = 0.0
    delay_s: float = 0.0

    @property
    def total(self) -> float:
        return sum(self.samples.values())

    def share(self, *phases: Phase) -> float:
        """Share of the samples in these phases, 0 to 1."""
        return sum(self.samples[phase] for phase in phases) / self.total if self.total else 0.0

    def place(self, phase: Phase) -> str:
        """Return where in the program most samples of a phase were taken."""
        found = [(count, place) for (of, place), count in self.places.items() if of == phase and place]
        return max(found)[1] if found else ""

    def join(self, other: Tally) -> None:
        """Count what another tally has, too."""
        for own, more in (
            (self.samples, other.samples), (self.running, other.running), (self.disk, other.disk),
            (self.storage, other.storage),
        ):  # fmt: skip
            own.update(more)
        self.places.update(other.places)
        self.seconds += other.seconds
        self.cpu_s += other.cpu_s
        self.delay_s += other.delay_s

    def add(self, window: _Window, part: float) -> None:
        """Count the share ``part`` of a window."""
        for reading, samples, running, disk in window.entries:
            phase = reading.phase
            self.samples[phase] += part * samples  # type: ignore[assignment]
            self.running[phase] += part * running  # type: ignore[assignment]
            self.disk[phase] += part * disk  # type: ignore[assignment]
            if reading.storage:
                self.storage[phase] += part * (samples - running)  # type: ignore[assignment]
            self.places[phase, reading.place] += part * samples  # type: ignore[assignment]
        self.seconds += part * (window.end - window.start)
        self.cpu_s += part * (window.counts.cpu_s or 0.0)
        self.delay_s += part * (window.counts.delay_s or 0.0)


@dataclass(frozen=True)
class _Window:
    start: float
    end: float
    counts: StackCounts
    entries: tuple[tuple[Reading, int, int, int], ...]


class Track:
    """One thread of one process, in order of time."""

    def __init__(self, pid: int, thread: str, windows: Sequence[_Window]) -> None:
        self.pid = pid
        self.thread = thread
        self.windows = sorted(windows, key=lambda window: window.end)
        self._ends = [window.end for window in self.windows]

    @cached_property
    def whole(self) -> Tally:
        """All that was seen of it."""
        return tally([self], [(self.windows[0].start, self.windows[-1].end)])

    @cached_property
    def is_worker(self) -> bool:
        """A loader process, by most of its stacks."""
        entries = [entry for window in self.windows for entry in window.entries]
        return sum(entry[1] for entry in entries if entry[0].worker) > sum(entry[1] for entry in entries) / 2

    @cached_property
    def steps(self) -> float:
        """Samples of training in it."""
        return sum(count for phase, count in self.whole.samples.items() if phase.step)

    def within(self, start: float, end: float) -> Iterable[tuple[_Window, float, float]]:
        """(window, begin, finish) of the windows that lie between, cut at both ends."""
        for index in range(bisect_right(self._ends, start), len(self.windows)):
            window = self.windows[index]
            if window.start >= end:
                break
            begin, finish = max(start, window.start), min(end, window.end)
            if finish > begin:
                yield window, begin, finish


def tally(tracks: Iterable[Track], ranges: Ranges) -> Tally:
    """Count what threads did over stretches of time."""
    found = Tally()
    for track in tracks:
        for start, end in ranges:
            for window, begin, finish in track.within(start, end):
                found.add(window, (finish - begin) / (window.end - window.start))
    return found


@dataclass(frozen=True)
class Arrival:
    """A piece of time with the rank that waits least for the others; None where all wait alike."""

    start: float
    end: float
    last: Track | None


Waits = Callable[[Tally], float]
"""The share of a thread's samples, 0 to 1, in which it waits for other ranks."""


class Inside:
    """All stacks of a recording."""

    def __init__(self, recording: Recording) -> None:
        ranks = any(process.rank is not None for process in recording.processes)
        readings = read_stacks(recording.stacks, recording.cwd, ranks=ranks, statements=recording.statements)
        self.readings = readings
        windows: dict[tuple[int, str], list[_Window]] = {}
        for counts in recording.stack_counts:
            windows.setdefault((counts.pid, counts.thread), []).append(_window(counts, readings))
        self._processes = {process.pid: process for process in recording.processes}
        self.tracks = [Track(pid, thread, found) for (pid, thread), found in windows.items()]
        self._main: dict[int, Track] = {}
        for track in self.tracks:
            known = self._main.get(track.pid)
            if known is None or (track.steps, track.thread == "main") > (known.steps, known.thread == "main"):
                self._main[track.pid] = track
        self._arrivals: dict[Waits, tuple[Arrival, ...]] = {}
        self._allocations = sorted(recording.allocations, key=lambda sample: sample.time_s)

    def __bool__(self) -> bool:
        return bool(self.tracks)

    def allocations(self, start: float, end: float) -> Sequence[AllocatorSample]:
        """The samples of allocators between two times."""
        first = bisect_left(self._allocations, start, key=lambda sample: sample.time_s)
        return self._allocations[first : bisect_right(self._allocations, end, key=lambda sample: sample.time_s)]

    @cached_property
    def drivers(self) -> tuple[Track, ...]:
        """The threads that train, one of each process, by rank. Where none was seen to, those of the ranks, or of all
        programs in a job without ranks."""
        candidates = [track for track in self._main.values() if not track.is_worker and not _helps(track)]
        trained = [track for track in candidates if track.steps >= FEWEST_SAMPLES]
        most = max((track.steps for track in trained), default=0.0)
        trained = [track for track in trained if track.steps >= 0.1 * most]
        ranked = [track for track in candidates if self.rank(track) is not None]
        return tuple(sorted(trained or ranked or candidates, key=lambda track: (self.rank(track) or 0, track.pid)))

    @cached_property
    def programs(self) -> tuple[Track, ...]:
        """Main threads of all processes that are neither loader nor helper."""
        return tuple(track for track in self._main.values() if not track.is_worker and not _helps(track))

    def rank(self, track: Track) -> int | None:
        """LOCAL_RANK of a thread's process, else RANK."""
        process = self._processes.get(track.pid)
        if process is None:
            return None
        return process.local_rank if process.local_rank is not None else process.rank

    def of_gpu(self, index: int, pids: Iterable[int] = ()) -> tuple[Track, ...]:
        """The threads that feed a GPU: those of the processes that hold its memory, else by their rank, else all."""
        held = [track for track in self.drivers if track.pid in set(pids)]
        if held:
            return tuple(held)
        ranked = [track for track in self.drivers if self.rank(track) == index]
        return tuple(ranked) or self.drivers

    def workers_of(self, tracks: Iterable[Track]) -> list[Track]:
        """The loader processes that threads' processes started."""
        pids = {track.pid for track in tracks}
        return [
            track for pid, track in self._main.items()
            if track.is_worker and self._parent(pid) in pids
        ]  # fmt: skip

    def children_of(self, tracks: Iterable[Track]) -> list[Track]:
        """The processes that threads' processes started and that neither train nor load for a library."""
        pids = {track.pid for track in tracks}
        return [
            track for pid, track in self._main.items()
            if not track.is_worker and track.steps < FEWEST_SAMPLES and pid not in pids and self._parent(pid) in pids
        ]  # fmt: skip

    def _parent(self, pid: int) -> int | None:
        return self._processes[pid].parent if pid in self._processes else None

    def arrivals(self, waits: Waits) -> tuple[Arrival, ...]:
        """Return which rank was the last at collective operations, in pieces of time that have enough samples."""
        if waits not in self._arrivals:
            self._arrivals[waits] = tuple(self._pieces(waits)) if len(self.drivers) > 1 else ()
        return self._arrivals[waits]

    def _pieces(self, waits: Waits) -> Iterable[Arrival]:
        start, samples = 0.0, 0
        for window in self.drivers[0].windows:
            start = start or window.start
            samples += sum(entry[1] for entry in window.entries)
            if samples >= _ENOUGH:
                yield Arrival(start, window.end, self._last([(start, window.end)], waits))
                start, samples = 0.0, 0

    def _last(self, ranges: Ranges, waits: Waits) -> Track | None:
        shares: list[tuple[float, int, Track, float]] = []
        for track in self.drivers:
            found = tally([track], ranges)
            if found.total >= 1:
                shares.append((waits(found), track.pid, track, found.total))
        if len(shares) < 2:
            return None
        (least, _, last, few), (most, _, _, many) = min(shares), max(shares)
        mean = (least * few + most * many) / (few + many)
        chance = _SIGMA * math.sqrt(mean * (1 - mean) * (1 / few + 1 / many))
        return last if most - least >= max(_SPREAD, chance) else None

    def beside(self, track: Track) -> list[Track]:
        """The other busy threads of the same process."""
        return [other for other in self.tracks if other.pid == track.pid and other is not track]


def communicates(found: Tally) -> float:
    """Share of the samples in collective operations."""
    return sum(found.share(phase) for phase in found.samples if phase.cause == "COMMUNICATION")


def reduces(found: Tally) -> float:
    """Share of the samples in collective operations, those inside of the backward pass among them: they have no frame
    of their own, but use no core."""
    idle = sum(found.samples[phase] - found.running[phase] for phase in found.samples if phase.name == BACKWARD)
    return communicates(found) + (idle / found.total if found.total else 0.0)


def _helps(track: Track) -> bool:
    return sum(count for phase, count in track.whole.samples.items() if phase.name == HELPER) > track.whole.total / 2


def _window(counts: StackCounts, readings: dict[int, Reading]) -> _Window:
    columns = zip(counts.stacks, counts.samples, counts.running, counts.disk, strict=False)
    entries = tuple((readings[stack], *three) for stack, *three in columns if stack in readings)
    return _Window(counts.time_s - counts.seconds, counts.time_s, counts, entries)  # type: ignore[arg-type]
