"""Runs of statements that log, with what computes values for them alone."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.placement.host_values import HostValues
from gpulint.placement.synchronization import SyncPoints
from gpulint.project import Project
from gpulint.query import query
from gpulint.workspace.module_index import LoopNode, ModuleIndex
from gpulint_fixers.waits.logs.logging_runs import computed_run, logs, run_of


@query
def with_reads_above(
    project: Project, module: ModuleIndex, run: tuple[ast.stmt, ...], loop: LoopNode
) -> tuple[ast.stmt, ...]:
    """A run with what computes values for it alone, if that reads other numbers, or sums of them: their fixes then make
    the same edits, and not a condition around both."""
    if (outer := _around(project, module, run, loop)) is not None:
        return outer
    whole = computed_run(project, module, run[0]) or []
    if not set(run) < set(whole):
        return run
    added = {part for one in whole if one not in run for part in walk(one)}
    named = {part.id for part in added if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}
    for part in walk(loop):
        match part:
            case ast.AugAssign(target=ast.Name(id=name), value=value) if name in named:
                added.update(walk(value))
    on_host = project.fact(HostValues)
    reads = (one for one in project.fact(SyncPoints).in_module(module) if one.node in added)
    waits = any(one.value is None or not on_host.holds(module, one.value) for one in reads)
    return tuple(whole) if waits else run


def _around(
    project: Project, module: ModuleIndex, run: tuple[ast.stmt, ...], loop: LoopNode
) -> tuple[ast.stmt, ...] | None:
    """The run of a log that a block belongs to of which a run is all: one condition around it is enough for both."""
    branch = module.syntax.parents.get(run[0])
    if not isinstance(branch, ast.If) or tuple(branch.body) != run or branch.orelse:
        return None
    place, parent = module.syntax.place(branch), module.syntax.parents.get(branch)
    if place is None or parent is None or branch not in walk(loop):
        return None
    block: list[ast.stmt] = getattr(parent, place[0])
    for beside in block[max(place[1] - 1, 0) : place[1] + 2]:
        if beside is not branch and logs(project, module, beside):
            outer = with_reads_above(project, module, tuple(run_of(project, module, beside, set())), loop)
            if branch in outer:
                return outer
    return None
