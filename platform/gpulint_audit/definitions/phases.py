"""Stable phases: time in which a GPU has memory to spare."""

from __future__ import annotations

from typing import Any

import ibis

from gpulint_audit.parameters import EPSILON, GB, Parameters
from gpulint_audit.tables import SERIES


def stable_phases(cells: Any, parameters: Parameters) -> list[Any]:
    """CloudBrain-I, Table III: seconds in stable phases, stretches of more than t with more than m GB of idle GPU
    memory, for every (t, m) of the parameters, as columns t60_m1, t120_m1, ...; gaps end a phase. Per series, a table
    for each m.

    ``cells`` must have gpu_memory_bytes and gpu_memory_total_bytes.
    """
    order = ibis.window(group_by=SERIES, order_by="start")
    upto = ibis.cumulative_window(group_by=SERIES, order_by="start")
    idle = cells.gpu_memory_total_bytes - cells.gpu_memory_bytes
    flagged = cells.select(
        *SERIES,
        "start",
        "seconds",
        "joined",
        **{f"m{m}": (idle > m * GB).fill_null(False) for m in parameters.phase_gb},
    )
    changes = {
        f"m{m}_starts": (
            ~(flagged.joined & (flagged[f"m{m}"] == flagged[f"m{m}"].lag().over(order)).fill_null(False))
        ).cast("int64")
        for m in parameters.phase_gb
    }
    started = flagged.mutate(**changes)
    numbered = started.mutate(**{f"m{m}_run": started[f"m{m}_starts"].sum().over(upto) for m in parameters.phase_gb})
    answers = []
    for m in parameters.phase_gb:
        within = numbered.filter(numbered[f"m{m}"])
        phases = within.group_by([*SERIES, f"m{m}_run"]).aggregate(phase_s=within.seconds.sum())
        sums = phases.group_by(SERIES).aggregate(
            **{f"t{t}_m{m}": phases.phase_s.sum(where=phases.phase_s > t + EPSILON) for t in parameters.phase_s}
        )
        answers.append(sums)
    return answers


def memory_levels(cells: Any, parameters: Parameters) -> Any:
    """Phases of a GPU's memory: stretches longer than the shortest t in which it changes by at most
    ``level_step_bytes`` from sample to sample; gaps end one. Per series: levels, and memory_gap_bytes between the
    highest and the lowest of their means (CloudBrain-I: several phases, memory gaps; the step is gpulint's own)."""
    known = cells.filter(cells.gpu_memory_bytes.notnull())
    order = ibis.window(group_by=SERIES, order_by="start")
    upto = ibis.cumulative_window(group_by=SERIES, order_by="start")
    steady = (known.gpu_memory_bytes - known.gpu_memory_bytes.lag().over(order)).abs() <= parameters.level_step_bytes
    joined = (known.start - known.end.lag().over(order)).abs() < EPSILON
    started = known.mutate(begins=(~(steady & joined).fill_null(False)).cast("int64"))
    numbered = started.mutate(run=started.begins.sum().over(upto))
    levels = numbered.group_by([*SERIES, "run"]).aggregate(
        level_s=numbered.seconds.sum(),
        held=(numbered.gpu_memory_bytes * numbered.seconds).sum() / numbered.seconds.sum(),
    )
    lasting = levels.filter(levels.level_s > parameters.phase_s[0] + EPSILON)
    return lasting.group_by(SERIES).aggregate(
        levels=lasting.count(), memory_gap_bytes=lasting.held.max() - lasting.held.min()
    )
