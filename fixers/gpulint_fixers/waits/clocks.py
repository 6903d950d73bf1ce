"""Clocks that a training loop reads, and whether it measures single steps with them."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.query import query
from gpulint.values.clocks import EXACT
from gpulint.workspace.module_index import LoopNode, ModuleIndex, last_name
from gpulint_fixers.waits.logs.log_intervals import logged_seldom

_WAITS = frozenset({"synchronize"})


@query
def measures_steps(project: Project, module: ModuleIndex, loop: LoopNode) -> bool:
    """Return whether the loop reads a clock, or waits for all queued work, more often than every N steps.

    A time over many steps is the same whether or not each of them waits.
    """
    return any(
        isinstance(part, ast.Call)
        and last_name(part.func) in EXACT | _WAITS
        and not logged_seldom(project, module, part)
        for part in walk(loop)
    )


def clock_above(project: Project, module: ModuleIndex, statement: ast.stmt, line: int) -> ast.stmt:
    """The first statement of the block that reads a clock every N steps, above one that reads values and below a line:
    values that are read before it count for the time that it measures. The statement itself if there is none."""
    place, parent = module.syntax.place(statement), module.syntax.parents.get(statement)
    if place is None or parent is None:
        return statement
    block: list[ast.stmt] = getattr(parent, place[0])
    for one in block[: place[1]]:
        reads = any(isinstance(part, ast.Call) and last_name(part.func) in EXACT for part in walk(one))
        if reads and one.lineno > line and logged_seldom(project, module, one):
            return one
    return statement
