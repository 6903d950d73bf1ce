"""What a cluster's operator counts: idle slots, GPUs never used, fluctuation, stable phases, memory held without
activity.

Idle slots, never-used GPUs, fluctuation and stable phases follow the characterization of the CloudBrain-I cluster
(Yang et al., Tear Up the Bubble Boom: Lessons Learned From a Deep Learning Research and Development Cluster, ICCD
2022). Held-idle time is gpulint's own addition: the strict idle rule misses a model that sits in memory and does
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpulint_probe.analysis.series import GpuSeries, Point

IDLE_SLOT_S = 60.0
WINDOW_S = 120.0
SWING = 0.9
FLUCTUATING = 0.75
STABLE_S = 240.0
STABLE_BYTES = 2_000_000_000


@dataclass(frozen=True, slots=True)
class Slot:
    """A stretch of one GPU's time, in Unix seconds."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


def idle_slots(series: GpuSeries) -> tuple[Slot, ...]:
    """CloudBrain-I's idle slots: more than 60 s in which both utilization and memory are 0."""
    nothing = [point for point in series.known if point.idle and series.holds_memory(point) is False]
    slots = (Slot(run[0].start, run[-1].end) for run in series.runs(nothing))
    return tuple(slot for slot in slots if slot.seconds > IDLE_SLOT_S)


def never_used(series: GpuSeries) -> bool | None:
    """A GPU whose utilization is 0 at every sample (CloudBrain-I); None where activity was not seen."""
    return None if not series.known else all(point.idle for point in series.known)


def held_idle_seconds(series: GpuSeries) -> float:
    """Seconds in which the job holds memory and nothing is active."""
    return sum(point.seconds for point in series.known if point.idle and series.holds_memory(point))


def fluctuation(series: GpuSeries) -> float | None:
    """Share of the 120 s windows (side by side from the first sample, seen whole) in which the utilization swings by
    more than 90 points between its least and its most, 0 to 1; None where there is no such window.

    CloudBrain-I calls a job fluctuating where this is more than 75%: see ``FLUCTUATING``.
    """
    if not series.known:
        return None
    first, windows = series.known[0].start, dict[int, list[Point]]()
    for point in series.known:
        windows.setdefault(int((point.end - first - 1e-9) // WINDOW_S), []).append(point)
    whole = [points for points in windows.values() if sum(point.seconds for point in points) >= 0.95 * WINDOW_S]
    if not whole:
        return None
    return sum(_swing(points) > SWING for points in whole) / len(whole)


def stable_phases(series: GpuSeries) -> tuple[Slot, ...]:
    """CloudBrain-I's stable phases: at least 240 s in which the memory held stays within 2 GB (2 x 10^9 bytes).

    Found from the left, each as long as it can be; phases do not overlap.
    """
    found: list[Slot] = []
    for run in series.runs([point for point in series.points if point.memory_bytes is not None]):
        start, low, high = 0, run[0].memory_bytes or 0, run[0].memory_bytes or 0
        for index in range(len(run) + 1):
            memory = run[index].memory_bytes or 0 if index < len(run) else None
            if memory is not None and max(high, memory) - min(low, memory) <= STABLE_BYTES:
                low, high = min(low, memory), max(high, memory)
                continue
            phase = Slot(run[start].start, run[index - 1].end)
            if phase.seconds >= STABLE_S - 1e-6:
                found.append(phase)
            if memory is not None:
                start, low, high = index, memory, memory
    return tuple(found)


def _swing(points: Sequence[Point]) -> float:
    values = [point.level for point in points]
    return max(values) - min(values)
