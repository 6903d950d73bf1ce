"""How well GPUs were used: per GPU and for the job.

Definition (Gao et al., An Empirical Study on Low GPU Utilization of Deep Learning Jobs, ICSE 2024): the utilization
U_i of GPU i is the mean of its utilization over time, and U of the job is the mean over its GPUs, each weighted by
the time for which the job held it. Both are ratios from 0 to 1; the study calls a job with U of 50% or less a job of
low utilization.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpulint_probe.analysis.series import GpuSeries

LOW = 0.5
"""The study's bound: a job at or below it has low utilization."""


def utilization(series: GpuSeries) -> float | None:
    """U_i: mean activity of one GPU weighted by time, 0 to 1; None where none was seen."""
    if series.seen_seconds <= 0:
        return None
    total = sum(point.level * point.seconds for point in series.known)
    return min(1.0, total / series.seen_seconds)


def job_utilization(all_series: Sequence[GpuSeries]) -> float | None:
    """U: the GPUs' U_i weighted by the time that each was seen, 0 to 1; None where no activity was seen."""
    seen = sum(series.seen_seconds for series in all_series)
    if seen <= 0:
        return None
    return min(1.0, sum((utilization(series) or 0.0) * series.seen_seconds for series in all_series) / seen)
