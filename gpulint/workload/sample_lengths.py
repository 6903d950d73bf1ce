"""Data sets whose samples have lengths of their own, so that no batch of several can be stacked."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.documents.call_syntax import passed_as
from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import ModuleIndex, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_MEASURES = frozenset({"len", "size", "shape"})


def have_own_lengths(project: Project, module: ModuleIndex, loader: ast.Call) -> bool:
    """Return whether the data set of a loader takes the length of each sample from its data: ``__getitem__`` sets
    ``self.length`` to what it has read, and cuts by it. A collate function may pad."""
    given = passed_as(loader, "dataset", 0)
    if given is None or "collate_fn" in module.syntax.source.text:
        return False
    resolver = project.fact(Resolver)
    methods = (resolver.method(home, owner, "__getitem__") for home, owner in resolver.classes_of(module, given))
    return any(method is not None and _cuts_by_own_length(method.module, method.node) for method in methods)


@query
def _cuts_by_own_length(module: ModuleIndex, method: ast.AST) -> bool:
    lengths = {
        target.id
        for part in walk(method)
        if isinstance(part, ast.Assign) and _is_length(part.value, frozenset())
        for target in part.targets
        if isinstance(target, ast.Name)
    }
    stored = {
        ast.unparse(target)
        for part in walk(method)
        if isinstance(part, ast.Assign) and _is_length(part.value, frozenset(lengths))
        for target in part.targets
        if isinstance(target, ast.Attribute)
    }
    return bool(stored) and any(ast.unparse(part) in stored for cut in _cuts(method) for part in walk(cut))


def _is_length(value: ast.expr, lengths: frozenset[str]) -> bool:
    """``len(frames)``, or a number that is reckoned from it."""
    match value:
        case ast.Call(func=func):
            return last_name(func) in _MEASURES
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub()):
            return _is_length(left, lengths)
        case ast.Name(id=name):
            return name in lengths
    return False


def _cuts(method: ast.AST) -> Iterator[ast.AST]:
    """Yield the bounds of slices and the limits of loops."""
    for part in walk(method):
        if isinstance(part, ast.Slice):
            yield part
        elif isinstance(part, ast.For):
            yield part.iter
