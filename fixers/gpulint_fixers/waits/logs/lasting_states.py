"""Functions that log and go on from their last call: they show the time since then, or number their calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint.documents.python import walk
from gpulint.values.clocks import CLOCKS
from gpulint.workspace.module_index import FunctionNode, last_name
from gpulint_fixers.waits.logs.records import keeps_values


def counts_on_calls(function: FunctionNode) -> bool:
    """Return whether a function keeps what it gets, or shows what changed since its last call: fewer calls show
    something else."""
    return keeps_values(function) or goes_on(function)


def goes_on(function: FunctionNode) -> bool:
    """Return whether a function sets what outlives its call (a variable of the module, an attribute of its object or of
    itself) to a count of its calls, to the time, or to what it compares with in the next call. What it makes in the
    first call alone (``if self.file is None: self.file = open(path)``) is no such thing."""
    if isinstance(function, ast.Lambda):
        return False
    parts = [*walk(function)]
    outer = {name for part in parts if isinstance(part, ast.Global | ast.Nonlocal) for name in part.names}
    owners = {function.name, *(one.arg for one in (*function.args.posonlyargs, *function.args.args)[:1])}
    times = _times(parts)
    read = {ast.unparse(part) for part in parts if _is_state(part, outer, owners) and isinstance(part.ctx, ast.Load)}  # type: ignore[attr-defined]
    for part, tests in _stores(function, ""):
        for target in [part.target] if isinstance(part, ast.AugAssign) else part.targets:
            if not _is_state(target, outer, owners):
                continue
            name = ast.unparse(target)
            if isinstance(part, ast.AugAssign) or _has_clock(part.value, times):
                return True
            changes = not isinstance(part.value, ast.Constant) and not _is_container(part.value)
            if name in read and changes and name not in tests:
                return True
    return False


def _stores(node: ast.AST, tests: str) -> Iterator[tuple[ast.Assign | ast.AugAssign, str]]:
    """Yield the assignments of a function, with the conditions around each."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Assign | ast.AugAssign):
            yield child, tests
        elif isinstance(child, ast.If):
            yield from _stores(child, f"{tests} {ast.unparse(child.test)}")
        elif isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield from _stores(child, tests)


def _is_state(part: ast.AST, outer: set[str], owners: set[str]) -> bool:
    """``last_time`` below ``global last_time``, ``self.last``, ``progress_bar.last``."""
    match part:
        case ast.Name(id=name):
            return name in outer
        case ast.Attribute(value=ast.Name(id=owner)):
            return owner in owners
    return False


def _times(parts: list[ast.AST]) -> set[str]:
    """The variables that hold the time: ``now = time.time()``."""
    return {
        target.id
        for part in parts
        if isinstance(part, ast.Assign) and _has_clock(part.value, set())
        for target in part.targets
        if isinstance(target, ast.Name)
    }


def _has_clock(value: ast.expr, times: set[str]) -> bool:
    return any(
        part.id in times if isinstance(part, ast.Name) else last_name(part.func) in CLOCKS
        for part in walk(value)
        if isinstance(part, ast.Name | ast.Call)
    )


def _is_container(value: ast.expr) -> bool:
    """``[]``, ``{}``: what starts anew."""
    return isinstance(value, ast.List | ast.Dict | ast.Set) and not any(isinstance(p, ast.Name) for p in walk(value))
