"""Scalers of gradients that wait for the GPU right before a step is logged."""

from __future__ import annotations

import ast

from gpulint_rules.data.needed_waits import other_waits

from gpulint.project import Project
from gpulint.query import query
from gpulint.workspace.module_index import LoopNode, ModuleIndex, last_name
from gpulint_fixers.waits.step_tests import branches_around


def scaler_above(project: Project, module: ModuleIndex, loop: LoopNode, at: ast.stmt) -> int | None:
    """Return the line of the ``scaler.step(optimizer)`` that each step which comes to a statement has run before, with
    no other passes of the model in between: little is left to wait for."""
    here = branches_around(module, at, loop)
    passes = [call.lineno for call in module.calls_by_name.get("backward", ()) if loop in module.syntax.ancestors(call)]
    found = (
        call.lineno
        for call in _scalers(project, module, loop)
        if call.lineno < at.lineno
        and branches_around(module, call, loop) <= here
        and not any(call.lineno < line < at.lineno for line in passes)
    )
    return next(found, None)


@query
def _scalers(project: Project, module: ModuleIndex, loop: LoopNode) -> tuple[ast.Call, ...]:
    return tuple(
        call
        for call in other_waits(project, module, [loop])
        if isinstance(call, ast.Call) and last_name(call.func) == "step"
    )
