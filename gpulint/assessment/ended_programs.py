"""Programs that end with an error at the call that would start the training."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.query import query
from gpulint.semantic.failing_calls import does_not_fit
from gpulint.semantic.points_to import Resolver
from gpulint.training.loop_contexts import LoopContexts
from gpulint.workspace.module_index import FUNCTIONS

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex


@query
def ends_at_call(project: Project, path: Path) -> bool:
    """Return whether a program that does not train itself raises a ``TypeError`` where it calls a function of a module
    that does: the call, which depends on no condition, does not fit the parameters."""
    module = project.module_at(path)
    if module is None or project.fact(LoopContexts).has_training_step(module):
        return False
    return any(
        _is_always_made(module, call)
        and does_not_fit(project, module, call)
        and _starts_training(project, module, call)
        for call in module.calls
    )


def _starts_training(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether what a call names is of another module, which trains."""
    home = project.fact(Resolver).points_to(module, call.func)[0].module
    return home is not module and project.fact(LoopContexts).has_training_step(home)


def _is_always_made(module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call is in the code of a module, or of a function that the module calls or hands on as an
    object, and no test, loop or handler of exceptions is around it."""
    for up in module.syntax.ancestors(call):
        if isinstance(up, ast.If) and "__name__" in ast.unparse(up.test):
            continue
        if isinstance(up, ast.If | ast.IfExp | ast.BoolOp | ast.Try | ast.For | ast.While | ast.Lambda | ast.Match):
            return False
        if isinstance(up, FUNCTIONS):
            return up.name == "__call__" or up.name in module.calls_by_name
    return True
