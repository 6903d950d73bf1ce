"""Models for several GPUs whose weights nothing updates: frozen ones, and those that no optimizer can get."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.semantic.path_conditions import conditions
from gpulint.training.parallel_wrappers import statement_of
from gpulint.workspace.module_index import ModuleIndex, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_OPTIMIZER = regex.compile(r"optim|adam|sgd|lamb|lion|adafactor|rmsprop", re.IGNORECASE)
_HARMLESS = frozenset("eval cuda to half float load_state_dict train training state_dict".split())
"""What a model is asked for that gives nobody its weights to update."""


def is_never_trained(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether nothing updates the weights of a wrapped model, if gradients flow through it: a network that a
    loss compares pictures with, a moving average, a model under attack."""
    assigned = statement_of(module, call)
    if not isinstance(assigned, ast.Assign) or len(assigned.targets) > 1:
        return False
    target = assigned.targets[0]
    names = [ast.unparse(one) for one in (target, *call.args[:1]) if isinstance(one, ast.Name | ast.Attribute)]
    return _is_frozen(module, call, names) or (
        isinstance(target, ast.Name) and _is_only_called(project, module, call, names)
    )


def _is_frozen(module: ModuleIndex, call: ast.Call, names: list[str]) -> bool:
    """Return whether the weights are set to need no gradients, and nothing sets them to again or adds others."""
    if any(_thaws(part) for part in (*module.syntax.of(ast.Assign), *module.calls_by_name.get("requires_grad_", ()))):
        return False
    function, owner = module.function(call), module.class_of(call)
    for place, frozen in _freezes(module):
        if any(conditions(module, place)):
            continue
        if frozen == "self" and owner is not None:
            if module.class_of(place) is owner and place.lineno > call.lineno and names[0].startswith("self."):
                return True
        elif frozen in names and module.function(place) is function:
            return not (
                _is_changed(module, frozen, place, call) or any(_goes_to_optimizer(module, name) for name in names)
            )
    return False


def _freezes(module: ModuleIndex) -> Iterator[tuple[ast.stmt | ast.expr, str]]:
    """Yield where all weights of a model are frozen, with its name: ``for p in net.parameters(): p.requires_grad =
    False``, ``net.requires_grad_(False)``."""
    for call in module.calls_by_name.get("requires_grad_", ()):
        if isinstance(call.func, ast.Attribute) and _says_no(call.args):
            yield call, ast.unparse(call.func.value)
    for loop in module.loops:
        match loop:
            case ast.For(
                iter=ast.Call(func=ast.Attribute(value=model, attr="parameters" | "named_parameters")), body=[statement]
            ) if _freezes_one(statement):
                yield loop, ast.unparse(model).removesuffix(".module")


def _freezes_one(statement: ast.stmt) -> bool:
    match statement:
        case ast.Assign(targets=[ast.Attribute(attr="requires_grad")], value=value):
            return _says_no([value])
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="requires_grad_"), args=args)):
            return _says_no(args)
    return False


def _says_no(args: list[ast.expr]) -> bool:
    return any(isinstance(one, ast.Constant) and one.value is False for one in args)


def _thaws(part: ast.AST) -> bool:
    """``p.requires_grad = True``, ``p.requires_grad_()`` of a weight, not of a tensor that is optimized itself."""
    match part:
        case ast.Assign(targets=[ast.Attribute(attr="requires_grad")], value=value):
            return not _says_no([value])
        case ast.Call(func=ast.Attribute(value=ast.Name() | ast.Attribute())) as call:
            return not _says_no(call.args)
    return False


def _is_changed(module: ModuleIndex, model: str, frozen: ast.stmt | ast.expr, call: ast.Call) -> bool:
    """Return whether a model gets another part (``model.fc = nn.Linear(...)``), or the name another model between
    being frozen and being wrapped."""
    first, last = sorted((frozen.lineno, call.lineno))
    for statement in module.syntax.of(ast.Assign):
        for target in statement.targets:
            owner = target.value if isinstance(target, ast.Attribute) and target.attr != "requires_grad" else None
            if owner is not None and ast.unparse(owner).removesuffix(".module") == model != "self":
                return True
            if ast.unparse(target) == model and first < statement.lineno < last:
                return True
    return False


def _goes_to_optimizer(module: ModuleIndex, model: str) -> bool:
    return any(
        _OPTIMIZER.search(last_name(call.func)) and any(ast.unparse(part) == model for part in walk(call))
        for call in module.calls
    )


def _is_only_called(project: Project, module: ModuleIndex, wrapper: ast.Call, names: list[str]) -> bool:
    """Return whether a module does nothing with a model but call it, so that no optimizer gets its weights."""
    if module.function(wrapper) is None and next(project.fact(GpuPrograms).users(module.path), None) is not None:
        return False
    if not all(name.isidentifier() for name in names):
        return False
    runs = False
    for name in names:
        for use in module.uses.get(name, ()):
            up = module.syntax.parents.get(use)
            if isinstance(up, ast.Call) and up.func is use:
                runs = True
            elif not (up is wrapper or (isinstance(up, ast.Attribute) and up.attr in _HARMLESS)):
                return False
    return runs and any(_OPTIMIZER.search(last_name(call.func)) for call in module.calls)
