"""Stable phases: time in which a GPU has memory to spare."""

from __future__ import annotations

from typing import Any

from gpulint_audit.parameters import EPSILON, Parameters
from gpulint_audit.tables import SERIES


def stable_phases(cells: Any, parameters: Parameters) -> list[Any]:
    """CloudBrain-I, Table III: seconds in stable phases, stretches of more than t with more than m GB of idle GPU
    memory, for every (t, m) of the parameters, as columns t60_m1, t120_m1, ...; gaps end a phase. Per series, a table
    for each m.

    ``cells`` must have the flags m1, ... and their runs.
    """
    answers = []
    for m in parameters.phase_gb:
        within = cells.filter(cells[f"m{m}"])
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
    levels = known.group_by([*SERIES, "level_run"]).aggregate(
        level_s=known.seconds.sum(), held=(known.gpu_memory_bytes * known.seconds).sum() / known.seconds.sum()
    )
    lasting = levels.filter(levels.level_s > parameters.phase_s[0] + EPSILON)
    return lasting.group_by(SERIES).aggregate(
        levels=lasting.count(), memory_gap_bytes=lasting.held.max() - lasting.held.min()
    )
