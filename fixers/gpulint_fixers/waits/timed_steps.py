"""Clocks that measure each step, and whose times end at waits: without these, a time has no part of the GPU's work."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.query import query
from gpulint.values.clocks import CLOCKS
from gpulint.workspace.module_index import LoopNode, ModuleIndex, last_name
from gpulint_fixers.waits.logs.log_intervals import logged_seldom
from gpulint_fixers.waits.timer_objects import timed_by_objects

_WAITS = frozenset({"synchronize", "barrier", "wait_for_everyone"})
_SHOWS = frozenset({"print", "info", "log", "write", "save", "set_postfix", "set_description", "debug", "add_scalar"})
"""Calls that may wait for the GPU, as they read values."""


def ends_at(project: Project, module: ModuleIndex, loop: LoopNode, wait: ast.expr) -> str:
    """Return the name of the time that a step measures up to a wait, from a clock that starts in the same round above
    it, or anew below calls that may wait themselves; "" if there is none."""
    for began, ended, name in _measured(project, module, loop):
        if not wait.lineno < ended or _waits_between(loop, wait.end_lineno or wait.lineno, ended):
            continue
        if began < wait.lineno or (began > ended and _shows_between(loop, ended, began)):
            return name
    return ""


@query
def _measured(project: Project, module: ModuleIndex, loop: LoopNode) -> list[tuple[int, int, str]]:
    """Return the lines in which a loop starts and reads a clock, and what it reads it for (``time.time() - began``)."""
    read = dict[str, list[int]]()
    for part in walk(loop):
        match part:
            case ast.Assign(targets=[ast.Name() | ast.Attribute() as target], value=ast.Call() as call):
                if _is_clock(call):
                    read.setdefault(ast.unparse(target), []).append(part.lineno)
    found = timed_by_objects(project, module, loop)
    for part in walk(loop) if read else ():
        match part:
            case ast.BinOp(left=last, op=ast.Sub(), right=ast.Name() | ast.Attribute() as right):
                first, name = ast.unparse(right), ast.unparse(last)
                if first not in read or logged_seldom(project, module, part):
                    continue
                if name in read and name != first:
                    found += [(began, ended, name) for began in read[first] for ended in read[name]]
                elif isinstance(last, ast.Call) and _is_clock(last):
                    found += [(began, part.lineno, f"time since {first}") for began in read[first]]
    return found


def _is_clock(call: ast.Call) -> bool:
    return last_name(call.func) in CLOCKS and not call.args


def _waits_between(loop: LoopNode, first: int, last: int) -> bool:
    return any(name in _WAITS for name in _calls_between(loop, first, last))


def _shows_between(loop: LoopNode, first: int, last: int) -> bool:
    return any(name in _SHOWS for name in _calls_between(loop, first, last))


def _calls_between(loop: LoopNode, first: int, last: int) -> list[str]:
    return [last_name(part.func) for part in walk(loop) if isinstance(part, ast.Call) and first < part.lineno < last]
