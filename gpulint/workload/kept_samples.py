"""Functions of data sets that keep what they have made, so that they make it once for each process."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.libraries.names import matches
from gpulint.query import query
from gpulint.semantic.path_conditions import conditions, parts_of
from gpulint.semantic.points_to import Resolver
from gpulint.workload.library_handles import handles
from gpulint.workspace.module_index import FUNCTIONS, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import FunctionNode, ModuleIndex

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


def runs_for_uncached(project: Project, module: ModuleIndex, part: ast.expr) -> bool:
    """Return whether a part of a function that makes more than that runs only for what a table lacks, in which the
    function then stores it (``if key not in self.cache: self.cache[key] = draw(key)``), or while a list is shorter than
    a number. Open files are no samples."""
    function = module.function(part)
    if function is None or keeps_results(project, NodeRef(module, function)):
        return False
    if _is_open(project, NodeRef(module, function), part):
        return False
    asked = {name for test, holds in conditions(module, part) for name in _lacking(test, holds)}
    return bool(asked) and not asked.isdisjoint(_filled_in(module, function))


def _lacking(test: ast.expr, holds: bool) -> Iterator[str]:
    """Yield the tables that lack something where a test holds, or does not."""
    for part, is_so in parts_of(test, holds):
        match part:
            case ast.Compare(ops=[ast.NotIn() | ast.In() as asks], comparators=[ast.Name() | ast.Attribute() as table]):
                if isinstance(asks, ast.NotIn) is is_so:
                    yield ast.unparse(table)
            case ast.Compare(
                left=left, ops=[ast.Gt() | ast.GtE()], comparators=[ast.Call(func=ast.Name(id="len"), args=[table])]
            ) if is_so and not isinstance(left, ast.Constant):
                yield ast.unparse(table)


@query
def _filled_in(module: ModuleIndex, function: FunctionNode) -> frozenset[str]:
    """Return the tables and lists that a function adds to."""
    found = set[str]()
    for part in walk(function):
        match part:
            case ast.Subscript(value=ast.Name() | ast.Attribute() as table, ctx=ast.Store()):
                found.add(ast.unparse(table))
            case ast.Call(
                func=ast.Attribute(value=ast.Name() | ast.Attribute() as table, attr="append" | "setdefault")
            ):
                found.add(ast.unparse(table))
    return frozenset(found)


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
