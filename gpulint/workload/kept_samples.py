"""Functions of data sets that keep what they have made, so that they make it once for each process."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.libraries.names import matches
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.workload.library_handles import handles
from gpulint.workspace.module_index import FUNCTIONS, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_SAVES = ("torch.save", "numpy.save*", "pickle.dump", "joblib.dump", "safetensors.torch.save_file")
_LOADS = ("torch.load", "numpy.load", "pickle.load", "joblib.load", "safetensors.torch.load_file")
_EXISTS = frozenset({"exists", "is_file", "isfile"})
_FEW = 1000
"""Results that a cache may hold and still be too small for a data set (``lru_cache`` holds 128)."""


@query
def keeps_results(project: Project, function: NodeRef) -> bool:
    """Return whether a function stores what it makes and looks there first, or a decorator does so."""
    if not isinstance(function.node, FUNCTIONS):
        return False
    return _is_memoised(project, function) or _stores(project, function)


@query
def keeps_on_disk(project: Project, function: NodeRef) -> bool:
    """Return whether a function loads what it has saved before (``if os.path.exists(path): return torch.load(path)``
    above ``torch.save(sample, path)``): after the first pass it reads a file."""
    if not isinstance(function.node, FUNCTIONS):
        return False
    names = project.fact(Resolver).call_names
    calls = [part for part in walk(function.node) if isinstance(part, ast.Call)]
    return any(matches(_SAVES, names(function.module, call)) for call in calls) and any(
        isinstance(test, ast.If)
        and isinstance(test.test, ast.Call)
        and last_name(test.test.func) in _EXISTS
        and any(
            isinstance(part, ast.Call) and matches(_LOADS, names(function.module, part))
            for statement in test.body
            for part in walk(statement)
        )
        and (bool(test.orelse) or isinstance(test.body[-1], ast.Return))
        for test in walk(function.node)
    )


def _is_memoised(project: Project, function: NodeRef) -> bool:
    """``@functools.cache``, ``@lru_cache(maxsize=None)``"""
    assert isinstance(function.node, FUNCTIONS)
    resolver = project.fact(Resolver)
    for decorator in function.node.decorator_list:
        names = resolver.names(function.module, decorator.func if isinstance(decorator, ast.Call) else decorator)
        if "functools.cache" in names:
            return True
        if isinstance(decorator, ast.Call) and "functools.lru_cache" in names:
            sizes = [*decorator.args[:1], *(word.value for word in decorator.keywords if word.arg == "maxsize")]
            return any(isinstance(size, ast.Constant) and _holds_all(size.value) for size in sizes)
    return False


def _holds_all(size: object) -> bool:
    return size is None or (isinstance(size, int) and size >= _FEW)


def _stores(project: Project, function: NodeRef) -> bool:
    """Return whether a function stores what it makes under an index, and reads it from there. Open files are no
    samples."""
    assert isinstance(function.node, FUNCTIONS)
    stored = {
        ast.unparse(target.value)
        for part in walk(function.node)
        if isinstance(part, ast.Assign) and not _is_open(project, function, part.value)
        for target in part.targets
        if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Attribute)
    }
    return bool(stored) and any(
        isinstance(part, ast.Attribute)
        and ast.unparse(part) in stored
        and not (
            isinstance(up := function.module.syntax.parents.get(part), ast.Subscript) and isinstance(up.ctx, ast.Store)
        )
        for part in walk(function.node)
    )


def _is_open(project: Project, at: NodeRef, value: ast.expr) -> bool:
    resolver = project.fact(Resolver)
    return any(
        isinstance(ref.node, ast.Call)
        and last_name(ref.node.func) != "open"
        and matches(handles(project, "file"), resolver.call_names(ref.module, ref.node))
        for ref in resolver.points_to(at.module, value)
    )
