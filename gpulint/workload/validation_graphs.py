"""Passes over held-out batches between the steps of a training, in which a model that is never set to evaluation builds
graphs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.semantic.reaching_definitions import reaching
from gpulint.training.evaluated_models import may_disable, speaks_of_gradients
from gpulint.training.inference_loops import InferenceLoop
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_iterables import unwrap_iterable
from gpulint.training.loop_roles import Role, stops_at_once
from gpulint.workload.data_split import Split, split_of
from gpulint.workspace.module_index import FunctionNode, LoopNode, ModuleIndex, dotted, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_OF_MODELS = ("parameters", "named_parameters", "state_dict", "load_state_dict", "train", "zero_grad")
"""Methods that tell that a value is a model."""
_ADAPTS = regex.compile(r"adapt|adversar|attack|saliency|grad_?cam|meta|inner_|ascent|virtual", re.IGNORECASE)
"""Words of functions that may differentiate what they compute of held-out batches."""


def graphs_in_validation(project: Project, module: ModuleIndex) -> Iterator[InferenceLoop]:
    """Loops over held-out batches, in functions that train the same model, where gradients are certainly enabled."""
    steps = dict[FunctionNode | None, list[ast.Call]]()
    for call in module.calls_by_name.get("backward", ()):
        steps.setdefault(module.function(call), []).append(call)
    held_out = _held_out(module) if steps else {}
    for function, loops in held_out.items():
        if function not in steps or _may_differentiate(module, function):
            continue
        trained = _trained(project, module, function)
        for loop in loops if trained else ():
            forward = _forward(project, module, loop, trained)
            if forward is None or may_disable(module, forward, function):
                continue
            if _is_validation(project, module, loop) and not _is_propagated(module, loop, steps[function]):
                yield InferenceLoop(module, loop, function, forward, dotted(forward.func))


def _held_out(module: ModuleIndex) -> dict[FunctionNode | None, list[ast.For]]:
    """The loops of each function over what is named after a held-out split."""
    table = dict[FunctionNode | None, list[ast.For]]()
    for loop in module.loops:
        if isinstance(loop, ast.For) and split_of(last_name(unwrap_iterable(loop.iter))) is Split.EVAL:
            table.setdefault(module.function(loop), []).append(loop)
    return table


def _may_differentiate(module: ModuleIndex, function: FunctionNode | None) -> bool:
    if function is None:
        return "set_grad_enabled" in module.calls_by_name
    return speaks_of_gradients(module, function) or bool(_ADAPTS.search(function.name))


def _trained(project: Project, module: ModuleIndex, function: FunctionNode | None) -> frozenset[str]:
    """Names of the models that a function runs in training steps and never sets to evaluation."""
    loops = project.fact(LoopContexts)
    run = {
        dotted(call.func)
        for call in module.calls_of(function)
        if next((loops.role(module, loop) for loop in loops.around(module, call)), None) is Role.STEP
    }
    models = {name for method in _OF_MODELS for name in _receivers(module, method)}
    return frozenset(run & models - _receivers(module, "eval") - {""})


def _receivers(module: ModuleIndex, method: str) -> set[str]:
    calls = module.calls_by_name.get(method, ())
    return {dotted(call.func.value) for call in calls if isinstance(call.func, ast.Attribute)}


def _is_validation(project: Project, module: ModuleIndex, loop: ast.For) -> bool:
    """Return whether a loop passes over a loader and trains nothing."""
    loops = project.fact(LoopContexts)
    return (
        not stops_at_once(loop)
        and loops.over_loader(module, loop)
        and loops.role(module, loop) in (Role.EVAL, Role.OTHER)
    )


def _forward(project: Project, module: ModuleIndex, loop: LoopNode, trained: frozenset[str]) -> ast.Call | None:
    calls = project.fact(LoopContexts).calls_in(module, loop)
    if any(last_name(call.func) in ("detach_", "eval") for call in calls):
        return None
    return next((call for call in calls if dotted(call.func) in trained), None)


def _is_propagated(module: ModuleIndex, loop: LoopNode, steps: list[ast.Call]) -> bool:
    """Return whether what the loop computes may be what a step differentiates."""
    inside = set(walk(loop))
    return any(
        binding.node in inside or binding.value in inside
        for step in steps
        for part in walk(step)
        if isinstance(part, ast.Name)
        for binding in reaching(module, module.scope(part).lookup(part.id), part)
    )
