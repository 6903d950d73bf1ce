"""Models that an object holds in evaluation mode from when it is made, and its methods that pass over batches."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.training.evaluated_models import forward_disables, speaks_of_gradients, trains_or_sets_mode
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.workspace.module_index import FunctionNode, ModuleIndex, dotted

if TYPE_CHECKING:
    from gpulint.project import Project


def held_forwards(project: Project, module: ModuleIndex, mode: ast.Call, model: str) -> Iterator[ast.Call]:
    """Yield the calls of a model that ``__init__`` sets to evaluate for good (``self.model = load(path).eval()``), in
    loops over batches of the other methods of its class which only run it."""
    made, owner = module.function(mode), module.class_of(mode)
    if made is None or owner is None or made.name != "__init__" or not model.startswith("self."):
        return
    if _is_set_to_train(module, model):
        return
    loops = project.fact(LoopContexts)
    for call in module.calls_by_name.get(model.rpartition(".")[2], ()):
        function = module.function(call)
        if dotted(call.func) != model or function in (None, made) or module.class_of(call) is not owner:
            continue
        assert function is not None
        around = [*loops.around(module, call)]
        if (
            any(isinstance(loop, ast.For) and loops.over_loader(module, loop) for loop in around)
            and all(loops.role(module, loop) is not Role.STEP for loop in around)
            and _only_runs(module, function)
            and not forward_disables(project, module, call)
        ):
            yield call


def _is_set_to_train(module: ModuleIndex, model: str) -> bool:
    """Return whether a module sets a model to train under its name in any object, or an object with all its parts."""
    modes = (call.func for call in module.calls_by_name.get("train", ()))
    owners = [dotted(func.value) for func in modes if isinstance(func, ast.Attribute)]
    return any(owner == "self" or owner.rpartition(".")[2] == model.rpartition(".")[2] for owner in owners)


@query
def _only_runs(module: ModuleIndex, function: FunctionNode) -> bool:
    """Return whether a function hands out no batches, and neither trains models nor deals with gradients."""
    return not (
        speaks_of_gradients(module, function)
        or trains_or_sets_mode(module, function)
        or any(isinstance(part, ast.Yield | ast.YieldFrom) for part in walk(function))
    )
