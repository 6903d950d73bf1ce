"""From samples to cells: the stretch of time that each sample stands for.

A sample stands for the time up to the next sample of its GPU. Where the next one is further away than
``gap_factor`` times the usual distance (the median of that GPU's series), or missing, the sample stands for the usual
distance, and the rest is a gap: unseen, in no figure but coverage. Cells are cut to the life of their job. Of samples
with one time the one with the highest utilization counts.
"""

from __future__ import annotations

from typing import Any

import ibis

from gpulint_audit.parameters import EPSILON, GB, Parameters
from gpulint_audit.tables import SAMPLE_COLUMNS, SERIES

MEASURES = tuple(name for name in SAMPLE_COLUMNS if name not in ("timestamp", "job", "gpu", "node"))


def cells(samples: Any, keys: Any, parameters: Parameters) -> Any:
    """One row per sample that stands for some time: ``SERIES``, start, end, seconds, nominal (the usual
    distance), life_start, the measures, and of the whole series duplicates (samples with the time of another) and
    conflicts (those that differ).

    ``samples`` has ``SERIES``, timestamp and measures; ``keys`` has job_id, start, end and gpus of the jobs.
    """
    later = ibis.window(
        group_by=SERIES, order_by=[samples.timestamp, samples.gpu_utilization.asc(nulls_first=True)]
    )  # fmt: skip
    same = samples.gpu_utilization.lead().over(later).fill_null(-1.0) == samples.gpu_utilization.fill_null(-1.0)
    spaced = samples.mutate(delta=samples.timestamp.lead().over(later) - samples.timestamp, same=same)
    if "energy_j" in samples.columns:
        # As Prometheus' increase(): a counter that falls was reset, and counts from zero.
        after = samples.energy_j.lead().over(later)
        used = ibis.ifelse(after >= samples.energy_j, after - samples.energy_j, after)
        spaced = spaced.mutate(counted_j=used)
    usual = _usual(spaced, parameters)
    known = spaced.inner_join(usual, SERIES).inner_join(keys, "job_id")
    distance = ibis.ifelse(
        known.delta.isnull() | (known.delta > parameters.gap_factor * known.nominal), known.nominal, known.delta
    )
    cut = known.mutate(
        begins=ibis.greatest(known.timestamp, known.life_start),
        ends=ibis.least(known.timestamp + distance, known.life_end),
    )
    named = cut.mutate(start=cut.begins, end=cut.ends, seconds=cut.ends - cut.begins).drop(
        "begins", "ends", "delta", "same", "timestamp", "life_end"
    )
    return named.filter(named.seconds > EPSILON)


def _usual(spaced: Any, parameters: Parameters) -> Any:
    """The usual distance of samples, by series; that of the job's other GPUs where a series has one sample only."""
    double = (spaced.delta == 0.0).fill_null(False)
    series = spaced.group_by(SERIES).aggregate(
        nominal=spaced.delta.nullif(0.0).median(),
        duplicates=double.cast("int64").sum(),
        conflicts=(double & ~spaced.same.fill_null(False)).cast("int64").sum(),
    )
    others = series.nominal.max().over(ibis.window(group_by="job_id"))
    return series.mutate(nominal=ibis.coalesce(series.nominal, others, parameters.interval_s))


def runs(cells: Any, parameters: Parameters) -> Any:
    """Cells with flags, and the number of the run of equal flags that each belongs to (``idle_run``, ...): ``idle``
    (utilization 0), ``empty`` (memory 0, too), ``m1`` ... (more than so many GB of memory idle), and ``level_run``
    for memory that changes by at most ``level_step_bytes`` from cell to cell. A gap ends a run."""
    order = ibis.window(group_by=SERIES, order_by="start")
    flags = _flags(cells, parameters)
    flagged = cells.mutate(**flags)
    joined = ((flagged.start - flagged.end.lag().over(order)).abs() < EPSILON).fill_null(False)
    same = {flag: (flagged[flag] == flagged[flag].lag().over(order)).fill_null(False) for flag in flags}
    if "gpu_memory_bytes" in cells.columns:
        step = (flagged.gpu_memory_bytes - flagged.gpu_memory_bytes.lag().over(order)).abs()
        same["level"] = (step <= parameters.level_step_bytes).fill_null(False)
    started = flagged.mutate(**{f"{flag}_starts": (~(joined & equal)).cast("int32") for flag, equal in same.items()})
    # All sums are over one window, so that series are sorted once more, not once for each.
    upto = ibis.cumulative_window(group_by=SERIES, order_by="start")
    numbered = started.mutate(
        **{f"{flag}_run": started[f"{flag}_starts"].sum().over(upto).cast("int32") for flag in same}
    )
    return numbered.drop(*(f"{flag}_starts" for flag in same))


def _flags(cells: Any, parameters: Parameters) -> dict[str, Any]:
    idle = (cells.gpu_utilization <= EPSILON).fill_null(False)
    flags = {"idle": idle}
    if "gpu_memory_bytes" in cells.columns:
        flags["empty"] = idle & (cells.gpu_memory_bytes <= parameters.idle_memory_bytes).fill_null(False)
    if {"gpu_memory_bytes", "gpu_memory_total_bytes"} <= set(cells.columns):
        spare = cells.gpu_memory_total_bytes - cells.gpu_memory_bytes
        flags |= {f"m{m}": (spare > m * GB).fill_null(False) for m in parameters.phase_gb}
    return flags
