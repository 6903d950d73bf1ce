"""Trained models that a program runs over the batches of a loader with gradients enabled, without ``model.eval()``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.programs.evaluation_programs import only_runs_trained_models
from gpulint.training.inference_loops import InferenceLoop
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import stops_at_once
from gpulint.workspace.module_index import ModuleIndex, dotted, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_GRADIENTS = regex.compile(
    r"no_grad|inference_mode|grad_enabled|volatile|grad_?cam|saliency|attack|adversar|\.eval\("
    r"|backward\(|requires_grad|autograd\.grad\("
)
"""Words of programs that deal with gradients in some way, or set a model to evaluation, which others look at."""


def graphs_of_trained_models(project: Project, module: ModuleIndex) -> Iterator[InferenceLoop]:
    """Loops over batches in which a program that only runs trained models builds graphs, once per outermost loop."""
    if _GRADIENTS.search(module.syntax.source.text) or not only_runs_trained_models(project, module):
        return
    models = _loaded(module)
    seen = set[ast.AST]()
    loops = project.fact(LoopContexts)
    for call in module.calls if models else ():
        model = _forwarded(call)
        if model not in models:
            continue
        around = [loop for loop in loops.around(module, call) if isinstance(loop, ast.For)]
        outermost = next((loop for loop in reversed(around) if loops.over_loader(module, loop)), None)
        if outermost is not None and outermost not in seen and not stops_at_once(outermost):
            seen.add(outermost)
            yield InferenceLoop(module, outermost, module.function(call), call, model)


def _loaded(module: ModuleIndex) -> frozenset[str]:
    """Names of what is loaded whole (``model = torch.load(path)``), or given trained weights."""
    whole = {
        dotted(target)
        for statement in module.syntax.of(ast.Assign)
        for target in statement.targets
        if isinstance(statement.value, ast.Call) and dotted(statement.value.func) == "torch.load"
    }
    calls = module.calls_by_name.get("load_state_dict", [])
    given = {dotted(call.func.value) for call in calls if isinstance(call.func, ast.Attribute)}
    # The weights themselves are loaded, too; they are passed on.
    weights = {dotted(argument) for call in calls for argument in call.args}
    return frozenset(whole - weights | given) - {""}


def _forwarded(call: ast.Call) -> str:
    """The name of the model that a call runs: ``model(x)``, ``model.forward(x)``."""
    if isinstance(call.func, ast.Attribute) and last_name(call.func) == "forward":
        return dotted(call.func.value)
    return dotted(call.func)
