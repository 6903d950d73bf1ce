"""Whole-run conditions with a bound: the study's two about batch and memory, and the GPU against the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpulint_probe.analysis.series import GpuSeries, HostPoint
from gpulint_probe.analysis.utilization import LOW, utilization

_MUCH_CPU = 0.8


def improper_batch_size(series: GpuSeries) -> bool | None:
    """The study's condition for Improper Batch Size: mean utilization <= 50% and peak memory <= 50% of the card.

    Source: Gao et al., ICSE 2024. A larger batch would fit, and would give the GPU more to do. None where activity or
    memory was not seen.
    """
    mean, peak = utilization(series), series.peak_memory
    if mean is None or peak is None:
        return None
    return mean <= LOW and peak <= 0.5


def insufficient_memory(series: GpuSeries) -> bool | None:
    """The study's condition for Insufficient GPU Memory: mean utilization <= 50% and peak memory > 80% of the card.

    Source: Gao et al., ICSE 2024. The batch cannot grow; the memory that it needs must shrink first. None where
    activity or memory was not seen.
    """
    mean, peak = utilization(series), series.peak_memory
    if mean is None or peak is None:
        return None
    return mean <= LOW and peak > 0.8


@dataclass(frozen=True, slots=True)
class Imbalance:
    """Mean use of the job's CPU cores and of its GPUs, both 0 to 1; ``side`` is the overloaded one, or empty."""

    cpu: float
    gpu: float
    side: str


def imbalance(gpus: Sequence[GpuSeries], host: Sequence[HostPoint], gpu_mean: float | None) -> Imbalance | None:
    """GPUs against the CPU cores that the job may use, over the whole run; None where one of them was not seen.

    Overloaded is a CPU at 80% or more (gpulint's own bound) beside GPUs at 50% or less (the study's bound of low
    utilization).
    """
    seconds = sum(point.seconds for point in host)
    if gpu_mean is None or seconds <= 0 or not gpus:
        return None
    cpu = sum(cpu_share(point) * point.seconds for point in host) / seconds
    return Imbalance(cpu, gpu_mean, "cpu" if cpu >= _MUCH_CPU and gpu_mean <= LOW else "")


def cpu_share(point: HostPoint) -> float:
    """Use of the cores that the job may use, 0 to 1."""
    return min(1.0, max(0.0, point.sample.cpu_cores_used / max(1, point.sample.cpu_count)))
