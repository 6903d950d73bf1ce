"""What went over links and through the page cache: evidence on communication and on reading."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import fmean

from gpulint_probe.analysis.series import GpuSeries, HostPoint
from gpulint_probe.analysis.words import number, percent
from gpulint_probe.recording import Recording

_LEAST_LINK = 1e8
_LEAST_READ = 1e6
"""Bytes per second; less is left out."""
_STALLED = 0.1


def traffic(series: Sequence[GpuSeries], host: Sequence[HostPoint]) -> dict[str, float]:
    """Means over the run in bytes per second, both directions added: ``nvlink_bytes_s`` of a GPU and
    ``infiniband_bytes_s`` of the machine; ``infiniband_errors`` that were new; ``memory_stalled`` as a share of the
    time. What was not seen is left out."""
    linked = [
        (point.sample.nvlink_rx_bytes_s or 0.0) + (point.sample.nvlink_tx_bytes_s or 0.0)
        for one in series
        for point in one.points
        if (point.sample.nvlink_rx_bytes_s, point.sample.nvlink_tx_bytes_s) != (None, None)
    ]
    sent = [
        (point.sample.ib_rx_bytes_s or 0.0) + (point.sample.ib_tx_bytes_s or 0.0)
        for point in host
        if (point.sample.ib_rx_bytes_s, point.sample.ib_tx_bytes_s) != (None, None)
    ]
    errors = [point.sample.ib_errors for point in host if point.sample.ib_errors is not None]
    stalled = [point.sample.memory_stalled for point in host if point.sample.memory_stalled is not None]
    found = {"nvlink_bytes_s": linked, "infiniband_bytes_s": sent, "memory_stalled": stalled}
    means = {name: fmean(values) for name, values in found.items() if values}
    if len(errors) >= 2:
        means["infiniband_errors"] = sum(max(0, new - old) for old, new in pairwise(errors))
    return means


def traffic_remarks(recording: Recording, found: dict[str, float], from_cache: float | None) -> Iterator[str]:
    """Sentences on what is worth knowing of it. ``from_cache`` is the share of reads that the page cache served."""
    if (linked := found.get("nvlink_bytes_s", 0.0)) >= _LEAST_LINK:
        yield f"NVLink carried {_rate(linked)} for each GPU on average, both directions together"
    if (sent := found.get("infiniband_bytes_s", 0.0)) >= _LEAST_LINK:
        yield f"InfiniBand or RoCE carried {_rate(sent)} on average, both directions together"
    if errors := int(found.get("infiniband_errors", 0)):
        yield f"{number(errors, 'InfiniBand error')} during the run"
    if (stalled := found.get("memory_stalled", 0.0)) >= _STALLED:
        yield f"a task waited for memory {percent(stalled)} of the time: pages were reclaimed or swapped"
    # No disk of this machine reads what a network file system serves, so the cache's share is unknown there.
    read = [sample.file_read_bytes_s for sample in recording.host_samples if sample.file_read_bytes_s is not None]
    if from_cache is not None and fmean(read) >= _LEAST_READ and not any(one.network for one in recording.mounts):
        yield f"the job read {_rate(fmean(read))} from files on average, {percent(from_cache)} of it from memory"


def _rate(bytes_s: float) -> str:
    return f"{bytes_s / 1e9:.1f} GB/s" if bytes_s >= 1e9 else f"{bytes_s / 1e6:.0f} MB/s"
