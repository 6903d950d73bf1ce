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

OF_MODELS = ("parameters", "named_parameters", "state_dict", "load_state_dict", "train", "zero_grad")
"""Methods that tell that a value is a model."""
MAY_DIFFERENTIATE = regex.compile(r"adapt|adversar|attack|saliency|grad_?cam|meta|inner_|ascent|virtual", re.IGNORECASE)
"""Words of functions that may differentiate what they compute of held-out batches."""


def graphs_in_validation(project: Project, module: ModuleIndex) -> Iterator[InferenceLoop]:
    """Loops over held-out batches, in functions that train the same model, where gradients are certainly enabled."""
    steps = dict[FunctionNode | None, list[ast.Call]]()
    for call in module.calls_by_name.get("backward", ()):
        steps.setdefault(module.function(call), []).append(call)
    for function, loops in _loops(module).items() if steps else ():
        held_out = [loop for loop in loops if split_of(last_name(unwrap_iterable(loop.iter))) is Split.EVAL]
        if not held_out or function not in steps or _may_differentiate(module, function):
            continue
        trained = _trained(project, module, function)
        found = list[InferenceLoop]()
        for loop in held_out if trained else ():
            forward = _forward(project, module, loop, trained)
            if forward is None or may_disable(module, forward, function):
                continue
            if _is_validation(project, module, loop) and not _is_propagated(module, loop, steps[function]):
                found.append(InferenceLoop(module, loop, function, forward, dotted(forward.func)))
        yield from found
        yield from _repeated(project, found, loops, steps[function])


def _repeated(
    project: Project, found: list[InferenceLoop], loops: list[ast.For], steps: list[ast.Call]
) -> Iterator[InferenceLoop]:
    """Yield the loops of the same function that do to another loader what a validation does (scores in training)."""
    shapes, known = {_shape(one.loop): one for one in found}, {one.loop for one in found}
    for loop in loops if found else ():
        same = shapes.get(_shape(loop))
        if same is None or loop in known:
            continue
        forward = _forward(project, same.module, loop, frozenset({same.model}))
        if forward is None or may_disable(same.module, forward, same.function):
            continue
        if _is_validation(project, same.module, loop) and not _is_propagated(same.module, loop, steps):
            yield InferenceLoop(same.module, loop, same.function, forward, same.model)


def _shape(loop: LoopNode | None) -> tuple[str, ...]:
    """Return the parts of a loop, with its names numbered in the order in which it first has them."""
    if not isinstance(loop, ast.For):
        return ()
    numbers = dict[str, int]()
    parts = list[str]()
    for part in (node for one in (loop.target, *loop.body) for node in walk(one)):
        if isinstance(part, ast.Name):
            parts.append(f"{numbers.setdefault(part.id, len(numbers))}")
        else:
            given = (getattr(part, field, None) for field in part._fields)
            parts.append(f"{type(part).__name__} {[one for one in given if not _is_node(one)]}")
    return tuple(parts)


def _is_node(value: object) -> bool:
    return isinstance(value, ast.AST) or (isinstance(value, list) and all(isinstance(one, ast.AST) for one in value))


def _loops(module: ModuleIndex) -> dict[FunctionNode | None, list[ast.For]]:
    """Return the ``for`` loops of each function."""
    table = dict[FunctionNode | None, list[ast.For]]()
    for loop in module.loops:
        if isinstance(loop, ast.For):
            table.setdefault(module.function(loop), []).append(loop)
    return table


def _may_differentiate(module: ModuleIndex, function: FunctionNode | None) -> bool:
    if function is None:
        return "set_grad_enabled" in module.calls_by_name
    return speaks_of_gradients(module, function) or bool(MAY_DIFFERENTIATE.search(function.name))


def _trained(project: Project, module: ModuleIndex, function: FunctionNode | None) -> frozenset[str]:
    """Names of the models that a function runs in training steps and never sets to evaluation."""
    loops = project.fact(LoopContexts)
    run = {
        dotted(call.func)
        for call in module.calls_of(function)
        if next((loops.role(module, loop) for loop in loops.around(module, call)), None) is Role.STEP
    }
    models = {name for method in OF_MODELS for name in _receivers(module, method)}
    return frozenset(run & models - _evaluated(module, function) - {""})


def _receivers(module: ModuleIndex, method: str) -> set[str]:
    calls = module.calls_by_name.get(method, ())
    return {dotted(call.func.value) for call in calls if isinstance(call.func, ast.Attribute)}


def _evaluated(module: ModuleIndex, function: FunctionNode | None) -> set[str]:
    """Return the names of models that a function, or the top level of the module, sets to evaluation."""
    calls = [call for call in module.calls_by_name.get("eval", ()) if module.function(call) in (function, None)]
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
