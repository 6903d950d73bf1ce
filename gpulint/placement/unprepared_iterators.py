"""Iterators that a framework's ``prepare`` hands back as they are, since it knows loaders and no generators."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.query import cyclic
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import BindingKind, last_name

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import Binding, ModuleIndex

_ITERATORS = frozenset({"iter", "itertools.cycle", "itertools.chain", "itertools.islice"})
"""Functions that make an iterator of a loader."""


def handed_over(project: Project, module: ModuleIndex, call: ast.Call) -> Iterator[ast.expr]:
    """Yield the arguments of a call that a framework prepares."""
    yield from (given for given in call.args if not is_left_alone(project, module, call, given))


def is_left_alone(project: Project, module: ModuleIndex, call: ast.Call, given: ast.expr) -> bool:
    """Return whether a framework hands back an argument as it is: a generator or another iterator wherever it is set,
    other than by the call itself (``batches = cycle(loader); batches = accelerator.prepare(batches)``)."""
    names = frozenset(name for row in project.models.rows("mover") for name in row.in_order)
    return last_name(call.func) in names and _is_iterator(project, module, given, names)


def _is_iterator(project: Project, module: ModuleIndex, value: ast.expr, prepares: frozenset[str]) -> bool:
    match value:
        case ast.GeneratorExp():
            return True
        case ast.Call():
            return _makes_iterator(project, module, value)
        case ast.Name(id=name):
            bindings = module.scope(value).lookup(name)
        case ast.Attribute(attr=name, value=ast.Name(id="self")):
            owner = module.class_of(value)
            bindings = module.attributes.get((owner, name), []) if owner is not None else []
        case _:
            return False
    return _are_iterators(project, module, tuple(bindings), prepares)


@cyclic(False)
def _are_iterators(
    project: Project, module: ModuleIndex, bindings: tuple[Binding, ...], prepares: frozenset[str]
) -> bool:
    """Return whether all that a name is set to, other than by a framework, are iterators."""
    others = [
        one for one in bindings if not (isinstance(one.value, ast.Call) and last_name(one.value.func) in prepares)
    ]
    return bool(others) and all(
        one.kind is BindingKind.ASSIGN
        and not one.path
        and one.value is not None
        and _is_iterator(project, module, one.value, prepares)
        for one in others
    )


def _makes_iterator(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call makes an iterator: ``iter(loader)``, ``forever(loader)`` of the tree."""
    resolver = project.fact(Resolver)
    callees = resolver.callees(module, call)
    if not callees:
        return not _ITERATORS.isdisjoint({ast.unparse(call.func), *resolver.call_names(module, call)})
    return all(yields(callee.node) for callee in callees)


def yields(function: ast.AST) -> bool:
    """Return whether a function is a generator."""
    return any(isinstance(part, ast.Yield | ast.YieldFrom) for part in walk(function))
