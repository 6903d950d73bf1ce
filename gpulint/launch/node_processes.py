"""Processes per node over nested launchers, and what a batch job's directives add where a launcher is silent."""

from __future__ import annotations

from dataclasses import replace

from gpulint.documents.shell import Script
from gpulint.documents.shell.scheduler_directives import request
from gpulint.launch.launchers import Level
from gpulint.launch.process_counts import ProcessCount, implied
from gpulint.source import Span


def processes_per_node(levels: tuple[Level, ...], script: Script, span: Span) -> ProcessCount | None:
    """Product over all levels that start processes, 1 without any; None when one of them does not say."""
    total = implied(1, span)
    for level in levels:
        if level.row.distributed:
            own = level.processes or _allocated(level, script)
            if own is None:
                return None
            total = own if total.implicit and total.value == 1 else total.times(own) or own
    return total


def _allocated(level: Level, script: Script) -> ProcessCount | None:
    """Processes per node of a launcher that leaves it to the batch job's own directives."""
    while script.outer is not None and not script.directives:
        script = script.outer.script
    job = request(script)
    nodes, tasks = job.resources.nodes, job.resources.tasks_per_node
    if level.total is not None:
        whole = nodes.value if nodes is not None else 1 if level.total.value == 1 else None
        if level.total.value is None or not whole or level.total.value % whole:
            return None
        return replace(level.total, value=level.total.value // whole)
    scheduler = level.row.scheduler
    if not scheduler or (job.system != scheduler and (job.system or level.gpus is None)):
        return None
    if tasks is None:  # Slurm starts one task on each node, also of an allocation that srun makes itself
        return implied(1, level.span)
    return ProcessCount(tasks.value, False, tasks.span, tasks.text)
