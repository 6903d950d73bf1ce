"""Programs that switch gradients off as a whole, rather than around a forward pass."""

from __future__ import annotations

import ast
import re
from itertools import chain, islice
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.programs.gpu_programs import MAX_USERS, GpuPrograms
from gpulint.semantic.argument_binding import CallbackCall
from gpulint.semantic.points_to import Resolver
from gpulint.training.evaluated_models import names_switch
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import FunctionNode

_SWITCHES = regex.compile(
    rb"^[ \t]*(?:\w+\.)*_?set_grad_enabled\((?!\s*(?:mode\s*=\s*)?True\s*\))"
    rb"|\b(?:no_grad|inference_mode)\(\)(?:\.__enter__\(|\(\s*\w)"
    rb"|=\s*(?:\w+\.)*(?:no_grad|inference_mode)\(\)\s(?=[\s\S]*\.__enter__\()"
    rb"|\benter_context\(\s*(?:\w+\.)*(?:no_grad|inference_mode)\(",
    re.MULTILINE,
)
"""``torch.set_grad_enabled(training)`` as a statement, ``torch.no_grad().__enter__()``, by way of a variable too,
``torch.no_grad()(function)`` and ``stack.enter_context(torch.no_grad())``."""


def may_switch_gradients_off(project: Project, module: ModuleIndex) -> bool:
    """Return whether a module, one that it imports or one that imports it switches gradients off until it switches them
    on again, so that they may be off in all that runs later."""
    users = islice(project.fact(GpuPrograms).users(module.path), MAX_USERS)
    return any(project.finds(path, _SWITCHES) for path in chain([module.path], project.imported(module.path), users))


def may_run_without_gradients(project: Project, module: ModuleIndex, function: FunctionNode | None) -> bool:
    """Return whether code of the tree that speaks of switching gradients off wraps a function as its decorator, or gets
    it to call it (``quietly(evaluate, model)``, ``Engine(model, [evaluate])``) while nothing calls it directly."""
    if function is None:
        return False
    resolver = project.fact(Resolver)
    for decorator in function.decorator_list:
        made_by = decorator.func if isinstance(decorator, ast.Call) else decorator
        if any(_speaks_of_it(ref) for ref in resolver.points_to(module, made_by)):
            return True
    if any(not isinstance(site.node, CallbackCall) for site in resolver.first_sites(module, function)):
        return False
    files = [module.path, *islice(project.fact(GpuPrograms).users(module.path), MAX_USERS)]
    return any(
        any(map(_speaks_of_it, _receivers(project, other, function)))
        for path in files
        if (other := project.module_at(path)) is not None
    )


def _receivers(project: Project, module: ModuleIndex, function: FunctionNode) -> list[NodeRef]:
    """Return what gets a function in calls of a module, by itself or in a list."""
    found = list[NodeRef]()
    for node in module.named.get(function.name, ()):
        up = module.syntax.parents.get(node)
        while isinstance(up, ast.List | ast.Tuple | ast.Dict | ast.keyword):
            up = module.syntax.parents.get(up)
        if isinstance(up, ast.Call) and up.func is not node:
            found += project.fact(Resolver).callees(module, up)
    return found


def _speaks_of_it(ref: NodeRef) -> bool:
    """Return whether a function of the tree, or the class that a constructor is of, names what switches gradients
    off."""
    if not isinstance(ref.node, FUNCTIONS):
        return False
    return names_switch(ref.module.class_of(ref.node) or ref.node)
