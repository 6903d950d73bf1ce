"""What the machine and the card say about a run, beside activity: limits that held, errors, and who else was there.

Each figure is a share of the time for which it was seen, or the growth of a counter. All bounds here are gpulint's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from gpulint_probe.analysis.series import GpuSeries, HostPoint
from gpulint_probe.analysis.traffic import traffic, traffic_remarks
from gpulint_probe.analysis.words import listed, number, percent
from gpulint_probe.recording import HostSample, Recording

_WORTH_SAYING = 0.05
"""A share of the time below this is left out."""
_BUSY_THREAD = 0.9
_BUSY_TIME = 0.5
_STALLED = 0.1
_CROWDED = 0.5
_REASONS = {
    "power_cap": "its power limit", "hw_slowdown": "a slowdown by the hardware (power or temperature)",
    "sw_thermal": "its temperature (driver)", "hw_thermal": "its temperature (hardware)",
    "hw_power_brake": "the server's power brake", "sync_boost": "a slower GPU of its sync boost group",
    "application_clocks": "clocks that somebody set", "display_clocks": "clocks set for a display",
}  # fmt: skip
_COUNTERS = {
    "ecc_corrected": "corrected memory error", "ecc_uncorrected": "uncorrected memory error",
    "pcie_replays": "PCIe replay", "nvlink_errors": "NVLink error",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ThreadUse:
    """A thread name and how it used cores: ``busy`` is the share of the seen time in which one such thread used 90% of
    a core or more."""

    name: str
    busy: float
    mean_share: float


@dataclass(frozen=True, slots=True)
class Hardware:
    """``remarks`` are sentences; the rest are figures by GPU (in the order of the recording) or of the host."""

    remarks: list[str]
    throttled: list[dict[str, float]]
    """Share of the time by reason."""
    errors: list[dict[str, int]]
    """Growth of counters, and XIDs under ``xid``."""
    neighbours: list[int | None]
    """Most memory that processes of others held, in bytes; None where whose they are is not known."""
    threads: list[ThreadUse]
    cpu_limited: float | None
    io_stalled: float | None
    page_cache_share: float | None
    """Share of the bytes asked for that no disk of this machine had to read."""
    traffic: dict[str, float]
    """Of links, and waits for memory; see gpulint_probe.analysis.traffic."""

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return asdict(self)


def hardware(recording: Recording, series: Sequence[GpuSeries], host: Sequence[HostPoint]) -> Hardware:
    """All figures of a recording."""
    throttled = [_throttled(one) for one in series]
    errors = [_errors(one) for one in series]
    neighbours = [_neighbours(one) for one in series]
    threads = _threads(host)
    found = Hardware(
        [], throttled, errors, neighbours, threads,
        _mean(host, "cpu_limited"), _mean(host, "io_stalled"), _from_cache(host), traffic(series, host),
    )  # fmt: skip
    alike: dict[str, list[str]] = {}
    for one, reasons, counts in zip(series, throttled, errors, strict=True):
        for text in _of_gpu(one, reasons, counts):
            alike.setdefault(text, []).append(str(one.info.index))
    found.remarks.extend(f"GPU {listed(gpus)}: {text}" for text, gpus in alike.items())
    found.remarks.extend(_of_host(recording, found, host))
    found.remarks.extend(traffic_remarks(recording, found.traffic, found.page_cache_share))
    found.remarks.extend(_of_place(recording, series))
    return found


def _of_gpu(series: GpuSeries, reasons: dict[str, float], counts: dict[str, int]) -> Iterator[str]:
    for reason, share in sorted(reasons.items(), key=lambda item: -item[1]):
        if share >= _WORTH_SAYING:
            yield f"{_REASONS.get(reason, reason)} held its clocks down {percent(share)} of the time" + _clock(
                series, reason
            )
    if counts.get("xid"):
        xids = sorted({xid for point in series.points for xid in point.sample.xids or ()})
        yield f"the driver reported XID {listed([str(xid) for xid in xids])}, see NVIDIA's XID catalogue"
    for key, noun in _COUNTERS.items():
        if counts.get(key):
            yield f"{number(counts[key], noun)} during the run"
    widths = [point.sample.pcie_width for point in series.points if point.sample.pcie_width]
    if widths and series.info.max_pcie_width and max(widths) < series.info.max_pcie_width:
        yield f"its PCIe link has {max(widths)} of {series.info.max_pcie_width} lanes"


def _clock(series: GpuSeries, reason: str) -> str:
    """Return how far the clock is lowered."""
    held = [point for point in series.points if reason in (point.sample.throttle_reasons or ())]
    clocks = [(point.sample.clock_mhz, point.seconds) for point in held if point.sample.clock_mhz is not None]
    top, seconds = series.info.max_clock_mhz, sum(weight for _, weight in clocks)
    if not top or not seconds:
        return ""
    return f", at {sum(clock * weight for clock, weight in clocks) / seconds:.0f} of {top:.0f} MHz"


def _of_host(recording: Recording, found: Hardware, host: Sequence[HostPoint]) -> Iterator[str]:
    busiest = next(iter(found.threads), None)
    cores = max((point.sample.cpu_count for point in host), default=1)
    if busiest is not None and busiest.busy >= _BUSY_TIME and cores > 1:
        yield (
            f"one thread named {busiest.name} kept a whole core busy {percent(busiest.busy)} of the time, while the job"
            f" may use {number(cores, 'core')}"
        )
    if found.cpu_limited is not None and found.cpu_limited >= _WORTH_SAYING:
        machine = recording.machine
        limit = f" of {machine.cpu_limit:g} cores" if machine and machine.cpu_limit else ""
        yield f"the control group's limit{limit} held the job's threads in {percent(found.cpu_limited)} of the time"
    if found.io_stalled is not None and found.io_stalled >= _STALLED:
        yield f"a task waited for a disk or a file system {percent(found.io_stalled)} of the time"
    if (crowded := _mean(host, "cpu_stalled")) is not None and crowded >= _CROWDED:
        yield f"a task waited for a free core {percent(crowded)} of the time: there is more work than cores"
    for mount in recording.mounts:
        if mount.network:
            yield f"the job has files open on {mount.path}, a network file system ({mount.type}, {mount.source})"


def _of_place(recording: Recording, series: Sequence[GpuSeries]) -> Iterator[str]:
    machine = recording.machine
    if machine is None:
        return
    nodes = machine.cpu_numa_nodes or []
    far = [one.info.index for one in series if nodes and one.info.numa_node not in (None, *nodes)]
    if far:
        yield (
            f"GPU {listed([*map(str, far)])}: attached to another NUMA node than the cores that the job may use (node"
            f" {listed([*map(str, nodes)])})"
        )
    if machine.mps and series:
        yield "NVIDIA's Multi-Process Service runs here: several programs may compute on one GPU at once"


def _throttled(series: GpuSeries) -> dict[str, float]:
    told = [point for point in series.points if point.sample.throttle_reasons is not None]
    seconds = sum(point.seconds for point in told)
    shares: dict[str, float] = {}
    for point in told:
        for reason in point.sample.throttle_reasons or ():
            shares[reason] = shares.get(reason, 0.0) + point.seconds / seconds
    return shares


def _errors(series: GpuSeries) -> dict[str, int]:
    found = {}
    for name in _COUNTERS:
        values = [value for point in series.points if (value := getattr(point.sample, name)) is not None]
        if len(values) >= 2:
            found[name] = sum(max(0, new - old) for old, new in pairwise(values))
    if any(point.sample.xids is not None for point in series.points):
        found["xid"] = sum(len(point.sample.xids or ()) for point in series.points)
    return found


def _neighbours(series: GpuSeries) -> int | None:
    most = None
    for point in series.points:
        entries = [entry for entry in point.sample.processes or () if "job" in entry]
        if not entries and point.sample.processes != []:
            continue
        held = sum(entry.get("memory_bytes") or 0 for entry in entries if not entry["job"])
        most = max(most or 0, held)
    return most


def _threads(host: Sequence[HostPoint]) -> list[ThreadUse]:
    """By name, as loaders start their workers anew in each epoch; the one that is busy longest comes first."""
    told = [point for point in host if point.sample.threads is not None]
    seconds = sum(point.seconds for point in told)
    busy: dict[str, float] = {}
    total: dict[str, float] = {}
    for point in told:
        threads = point.sample.threads or []
        for thread in threads:
            total[thread["name"]] = total.get(thread["name"], 0.0) + thread["cpu_share"] * point.seconds
        for name in {thread["name"] for thread in threads if thread["cpu_share"] >= _BUSY_THREAD}:
            busy[name] = busy.get(name, 0.0) + point.seconds
    found = [ThreadUse(name, busy.get(name, 0.0) / seconds, total[name] / seconds) for name in total]
    return sorted(found, key=lambda use: (-use.busy, -use.mean_share, use.name))


def _mean(host: Sequence[HostPoint], name: str) -> float | None:
    return _weighted(host, lambda sample: getattr(sample, name))


def _from_cache(host: Sequence[HostPoint]) -> float | None:
    asked = _weighted(host, lambda sample: sample.file_read_bytes_s)
    read = _weighted(host, lambda sample: sample.disk_read_bytes_s)
    if not asked or read is None:
        return None
    return min(1.0, max(0.0, 1 - read / asked))


def _weighted(points: Iterable[HostPoint], value_of: Callable[[HostSample], float | None]) -> float | None:
    known = [(value, point.seconds) for point in points if (value := value_of(point.sample)) is not None]
    seconds = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / seconds if seconds else None
