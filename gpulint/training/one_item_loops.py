"""Loops that have one round: ``for seed in [0]``, ``for fold in range(1)``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.loop_iterables import unwrap_iterable
from gpulint.workspace.module_index import BindingKind, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_ADDS = ("append", "extend", "insert", "add", "update", "setdefault")
_WHOLE = frozenset({"enumerate", "list", "reversed", "sorted", "tqdm"})
"""What wraps a list without leaving any of it out, or repeating it."""
_VIEWS = frozenset({"items", "keys", "values"})


@query
def has_one_round(project: Project, module: ModuleIndex, loop: ast.AST) -> bool:
    """Return whether a loop goes through one item that is written out, by itself or as the only value of a variable to
    which nothing is added."""
    if not isinstance(loop, ast.For | ast.AsyncFor):
        return False
    source = loop.iter
    if isinstance(source, ast.Call) and last_name(source.func) in _WHOLE:
        source = unwrap_iterable(source)
    if isinstance(source, ast.Call) and isinstance(source.func, ast.Attribute) and source.func.attr in _VIEWS:
        source = source.func.value
    origins = project.fact(Resolver).points_to(module, source)
    return bool(origins) and all(_is_single(ref) for ref in origins)


def _is_single(made: NodeRef) -> bool:
    """Return whether a value that is written out has one item: ``[0]``, ``range(1)``, ``range(0, ROUNDS)``."""
    match made.node:
        case ast.List(elts=[item]) | ast.Tuple(elts=[item]) | ast.Set(elts=[item]):
            return not isinstance(item, ast.Starred) and not _is_changed(made)
        case ast.Dict(keys=[key]):
            return key is not None and not _is_changed(made)
        case ast.Call(func=ast.Name(id="range"), args=[stop] | [ast.Constant(value=0), stop]):
            return _is_one(made.module, stop)
    return False


def _is_one(module: ModuleIndex, stop: ast.expr) -> bool:
    """Return whether a number is 1, by itself or as the only value of a variable."""
    if isinstance(stop, ast.Name):
        bound = module.scope(stop).lookup(stop.id)
        is_set = len(bound) == 1 and bound[0].kind is BindingKind.ASSIGN and not bound[0].path
        stop = bound[0].value if is_set and bound[0].value is not None else stop
    return isinstance(stop, ast.Constant) and stop.value == 1 and stop.value is not True


def _is_changed(made: NodeRef) -> bool:
    """Return whether a module adds to, or assigns to a part of, a variable of the name that a value is given."""
    module, parent = made.module, made.module.syntax.parents.get(made.node)
    targets = parent.targets if isinstance(parent, ast.Assign) else []
    names = {last_name(target) for target in targets}
    calls = (call for name in _ADDS for call in module.calls_by_name.get(name, ()))
    if any(isinstance(call.func, ast.Attribute) and last_name(call.func.value) in names for call in calls):
        return True
    return any(
        isinstance(target, ast.Subscript) and last_name(target.value) in names
        for statement in module.syntax.of(ast.Assign)
        for target in statement.targets
    ) or any(last_name(statement.target) in names for statement in module.syntax.of(ast.AugAssign))
