"""Series resampled to as many values as a report has room for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpulint_probe.analysis.figures import Analysis
from gpulint_probe.analysis.series import GpuSeries

_BLOCKS = "▁▂▃▄▅▆▇█"
UNSEEN = "·"
Values = list[float | None]


@dataclass(frozen=True, slots=True)
class Lane:
    """One line of a timeline. ``top`` is the value at its upper edge, ``unit`` how to read it: "%", "B" or "B/s"."""

    name: str
    values: Values
    top: float
    unit: str
    kind: str
    """activity, memory, cpu or rate."""
    gpu: int | None = None


def resample(intervals: Iterable[tuple[float, float, float | None]], start: float, end: float, count: int) -> Values:
    """Means of (start, end, value) intervals over ``count`` equal parts of the time; None where nothing was seen."""
    if end <= start or count < 1:
        return [None] * max(0, count)
    totals, seconds, step = [0.0] * count, [0.0] * count, (end - start) / count
    for begin, finish, value in intervals:
        if value is None:
            continue
        begin, finish = max(begin, start), min(finish, end)
        index = min(count - 1, max(0, int((begin - start) / step)))
        while begin < finish - 1e-9 and index < count:
            edge = min(finish, start + (index + 1) * step)
            if edge > begin:
                totals[index] += value * (edge - begin)
                seconds[index] += edge - begin
                begin = edge
            index += 1
    return [total / weight if weight > 0 else None for total, weight in zip(totals, seconds, strict=True)]


def sparkline(values: Sequence[float | None], top: float = 1.0) -> str:
    """A line of block characters; ``·`` is time unseen."""
    if top <= 0:
        top = 1.0
    return "".join(UNSEEN if value is None else _BLOCKS[min(7, max(0, int(value / top * 8)))] for value in values)


def activity(analysis: Analysis, series: GpuSeries, count: int) -> Values:
    """One GPU's activity over the run."""
    begin, end = analysis.recording.started, analysis.seen.end
    return resample(((point.start, point.end, point.activity) for point in series.points), begin, end, count)


def lanes(analysis: Analysis, count: int) -> list[Lane]:
    """Every line of the timeline: activity and memory of each GPU, then the host as far as it was seen."""
    begin, end = analysis.recording.started, analysis.seen.end
    found: list[Lane] = []
    for series in analysis.seen.series:
        index, title = series.info.index, "utilization (coarse)" if series.coarse else "SM activity"
        found.append(Lane(title, activity(analysis, series, count), 1.0, "%", "activity", index))
        memory = [(p.start, p.end, None if p.memory_bytes is None else float(p.memory_bytes)) for p in series.points]
        if any(value is not None for _, _, value in memory):
            top = float(series.info.memory_bytes or series.peak_memory_bytes or 1)
            found.append(Lane("memory", resample(memory, begin, end, count), top, "B", "memory", index))
    points = analysis.seen.host.points
    if not points:
        return found
    cores = [(p.start, p.end, p.sample.cpu_cores_used / max(1, p.sample.cpu_count)) for p in points]
    found.append(Lane("CPU", resample(cores, begin, end, count), 1.0, "%", "cpu"))
    for name, attribute in (
        ("disk read", "disk_read_bytes_s"), ("disk write", "disk_write_bytes_s"),
        ("network in", "net_rx_bytes_s"), ("network out", "net_tx_bytes_s"),
    ):  # fmt: skip
        rates = resample([(p.start, p.end, getattr(p.sample, attribute)) for p in points], begin, end, count)
        top = max((rate for rate in rates if rate is not None), default=0.0)
        if top >= 1e6:
            found.append(Lane(name, rates, top, "B/s", "rate"))
    return found
