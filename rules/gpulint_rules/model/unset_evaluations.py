"""Functions that pass over batches with a trained model that nothing sets to evaluation, and keep the graphs of all."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.semantic.argument_binding import argument_of, parameters
from gpulint.semantic.path_conditions import contexts_of
from gpulint.semantic.points_to import Resolver
from gpulint.training.evaluated_models import may_disable, speaks_of_gradients
from gpulint.training.inference_loops import InferenceLoop, leaves_enabled
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role, stops_at_once
from gpulint.workload.validation_graphs import MAY_DIFFERENTIATE, OF_MODELS
from gpulint.workspace.module_index import FunctionNode, ModuleIndex, dotted, last_name
from gpulint_rules.model.held_graphs import held_in

EVALUATION_WORDS = ("evaluat", "valid", "test(", "test_", "val(", "val_", "eval(", "eval_")
"""Parts of the names of functions that evaluate, with what follows them."""
_EVALUATES = regex.compile(r"evaluat|valid|(^|_)(test|val|eval)(_|$)")


def graphs_kept_in_passes(project: Project, module: ModuleIndex) -> Iterator[InferenceLoop]:
    """Loops over batches of a function that gets the model from a program that trains it, where each round certainly
    leaves its graph in a total or a list, or a later part of it runs without gradients."""
    loops = project.fact(LoopContexts)
    for loop in module.loops if "torch" in module.packages else ():
        function = module.function(loop)
        if not isinstance(loop, ast.For) or not isinstance(function, ast.FunctionDef) or stops_at_once(loop):
            continue
        if not _EVALUATES.search(function.name) or _sets_mode(module, function) or not loops.over_loader(module, loop):
            continue
        if loops.role(module, loop) not in (Role.EVAL, Role.OTHER) or MAY_DIFFERENTIATE.search(function.name):
            continue
        for found in _passes(project, module, loop, function):
            wasted = held_in(project, found) is not None or _switches_off_later(loop, found.forward)
            if wasted and leaves_enabled(project, module, function):
                yield found


def _switches_off_later(loop: ast.For, forward: ast.Call) -> bool:
    """Return whether a loop computes a part of what follows a forward pass without gradients: they end there, and it
    wants none."""
    blocks = (part for part in walk(loop) if isinstance(part, ast.With) and part.lineno > forward.lineno)
    return any(last_name(context) in ("no_grad", "inference_mode") for one in blocks for context in contexts_of(one))


def _passes(project: Project, module: ModuleIndex, loop: ast.For, function: ast.FunctionDef) -> Iterator[InferenceLoop]:
    """Yield the first call in a loop that runs a model which is trained elsewhere, or hands it on."""
    known = {*parameters(function), *(name for name in _models(module) if name.startswith("self."))}
    for call in project.fact(LoopContexts).calls_in(module, loop):
        for model in map(dotted, (call.func, *call.args)):
            if model in known and _is_trained(project, module, function, model):
                if not may_disable(module, call, function):
                    yield InferenceLoop(module, loop, function, call, model)
                return


def _sets_mode(module: ModuleIndex, function: FunctionNode) -> bool:
    """Return whether a function sets a model to evaluation, which others look at, or deals with gradients."""
    names = {last_name(call.func) for call in module.calls_of(function)}
    return bool(names & {"eval", "detach_", "backward", "step"}) or speaks_of_gradients(module, function)


def _is_trained(project: Project, module: ModuleIndex, function: ast.FunctionDef, model: str) -> bool:
    """Return whether a call hands a function what a module trains under that name, or its object keeps that."""
    if model.startswith("self."):
        return "backward" in module.calls_by_name
    for site in project.fact(Resolver).call_sites(module, function):
        given = argument_of(function, site.node, model) if isinstance(site.node, ast.Call) else None
        name = dotted(given) if given is not None else ""
        if name and "backward" in site.module.calls_by_name and name in _models(site.module):
            return True
    return False


def _models(module: ModuleIndex) -> set[str]:
    """Names on which a module calls methods of models."""
    calls = (call for method in OF_MODELS for call in module.calls_by_name.get(method, ()))
    return {dotted(call.func.value) for call in calls if isinstance(call.func, ast.Attribute)}
