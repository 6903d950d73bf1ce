"""Copies in a time that the program keeps: one that does not wait leaves it, so a recorded number changes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice

from gpulint.documents.python import walk
from gpulint.placement.device_transfers import Transfer
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.values.clocks import CLOCKS
from gpulint.workspace.module_index import LOOPS, ModuleIndex, last_name

TIMED = "the program keeps the time that the copy is part of: without the wait, the recorded number changes"
TIMED_AFTER = "the time that the program keeps below the copy may then hold the end of it"
_MOST_TIMES = 8
"""Most times around one copy that are looked at."""
_KEEPS = frozenset({"append", "extend", "insert", "add"})
_WAITS = frozenset("item cpu numpy tolist synchronize float int print asnumpy".split())
"""Calls that wait for the copy themselves, so that the time holds it as before."""


def is_timed(transfer: Transfer) -> bool:
    """Return whether a round of a loop (or call of a function) starts a clock above the copy, reads it below with no
    wait between, and keeps the difference: ``times.append(time.time() - began)``."""
    module = transfer.call.module
    scope = next(
        (up for up in module.syntax.ancestors(transfer.node) if isinstance(up, (*LOOPS, ast.FunctionDef))), None
    )
    if scope is None:
        return False
    own, end = transfer.node.lineno, transfer.node.end_lineno or transfer.node.lineno
    read = _clocks_read(scope)
    around = (one for one in _differences(scope, read) if one[1] < own and end < one[2]) if read else iter(())
    return any(
        _is_kept(module, scope, difference) and not _waits(scope, end, ended)
        for difference, _, ended in islice(around, _MOST_TIMES)
    )


def is_timed_after(project: Project, transfer: Transfer) -> bool:
    """Return whether a clock starts below the copy, or below the call of the helper that makes it, with no wait
    between, and the program keeps that time: a copy that goes on in the background may end within it."""
    module = transfer.call.module
    function = module.function(transfer.node)
    sites = (
        ()
        if function is None or isinstance(function, ast.Lambda)
        else project.fact(Resolver).call_sites(module, function)
    )
    return any(_is_before_time(one.module, one.node) for one in (transfer.call, *sites))


def _is_before_time(module: ModuleIndex, node: ast.AST) -> bool:
    scope = next((up for up in module.syntax.ancestors(node) if isinstance(up, (*LOOPS, ast.FunctionDef))), None)
    if not isinstance(scope, LOOPS):
        return False
    end = getattr(node, "end_lineno", 0)
    read = _clocks_read(scope)
    below = (one for one in _differences(scope, read) if end < one[1]) if read else iter(())
    return any(
        _is_kept(module, scope, difference) and not _waits(scope, end, began)
        for difference, began, _ in islice(below, _MOST_TIMES)
    )


def _clocks_read(scope: ast.AST) -> dict[str, list[int]]:
    """Return the variables that hold what a clock says, with the lines that set them."""
    read = dict[str, list[int]]()
    for part in walk(scope):
        match part:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if _is_clock(call):
                read.setdefault(name, []).append(part.lineno)
    return read


def _differences(scope: ast.AST, read: dict[str, list[int]]) -> Iterator[tuple[ast.BinOp, int, int]]:
    """Yield the differences of clocks, with the lines that the time begins and ends at."""
    for part in walk(scope):
        match part:
            case ast.BinOp(left=last, op=ast.Sub(), right=ast.Name(id=first)) if first in read:
                ends = read.get(last.id, []) if isinstance(last, ast.Name) else [part.lineno]
                if isinstance(last, ast.Call) and not _is_clock(last):
                    continue
                for ended in ends:
                    starts = [line for line in read[first] if line < ended]
                    if starts:
                        yield part, max(starts), ended


def _is_kept(module: ModuleIndex, scope: ast.AST, difference: ast.expr) -> bool:
    """Return whether the value, or a variable that it is assigned to, goes into a list, a sum or a table."""
    for up in module.syntax.ancestors(difference):
        if _keeps(up):
            return True
        match up:
            case ast.Assign(targets=[ast.Name(id=name)]):
                used = (part for part in walk(scope) if _keeps(part))
                return any(isinstance(one, ast.Name) and one.id == name for part in used for one in walk(part))
            case ast.Assign(targets=[ast.Subscript()]):
                return True
            case ast.stmt():
                return False
    return False


def _keeps(part: ast.AST) -> bool:
    match part:
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in _KEEPS
        case ast.AugAssign(op=ast.Add()):
            return True
    return False


def _waits(scope: ast.AST, first: int, last: int) -> bool:
    return any(
        isinstance(part, ast.Call) and last_name(part.func) in _WAITS and first < part.lineno < last
        for part in walk(scope)
    )


def _is_clock(call: ast.expr) -> bool:
    return isinstance(call, ast.Call) and last_name(call.func) in CLOCKS and not call.args
