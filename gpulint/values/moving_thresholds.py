"""Tests for how far a number has come since a mark, which is moved on each time they hold, and of what is counted or
collected up to a number, and then starts anew."""

from __future__ import annotations

import ast
import re

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.values.clocks import CLOCKS
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, last_name

_COUNTS = regex.compile(
    r"(^|_)(now|time|clock|i|n|it|iters?|iterations?|steps?|batch(es)?|samples|images|tokens|seen|count|counter)(_|$)",
    re.IGNORECASE,
)
"""Names of what counts rounds or tells the time."""
_MARK = regex.compile(r"(^|_)(start|last|prev|previous)(_|$)", re.IGNORECASE)


def passes_mark(module: ModuleIndex, test: ast.expr, part: ast.Compare, holds: bool) -> bool:
    """Return whether a part of a test asks how far a number has come since a mark, which is moved on in the loop, or
    whether enough has come together, which then starts anew."""
    return (
        _waits_since(module, part)
        or _passes_distance(module, test, part, holds)
        or _moves_threshold(module, test, part, holds)
        or (holds and _moves_to_next(module, test, part))
        or _starts_anew(module, test, part, holds)
    )


def waits_for_clock(part: ast.AST, holds: bool) -> bool:
    """Return whether a test holds only once some time has passed: ``time.time() > self.due``. That of a limit fails
    until then (``if time.time() > deadline: break``)."""
    match part:
        case ast.Compare(left=left, ops=[ast.Gt() | ast.GtE()]):
            return holds and _asks_clock(left)
        case ast.Compare(ops=[ast.Lt() | ast.LtE()], left=left, comparators=[right]):
            return _asks_clock(right) if holds else _asks_clock(left)
    return False


def _asks_clock(node: ast.expr) -> bool:
    return any(isinstance(one, ast.Call) and last_name(one.func) in CLOCKS for one in walk(node))


def _waits_since(module: ModuleIndex, test: ast.Compare) -> bool:
    """A distance from a mark (``step - last_step >= 50``) that is set anew in the loop."""
    if not isinstance(test.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE):
        return False
    for side in (test.left, *test.comparators):
        if isinstance(side, ast.BinOp) and isinstance(side.op, ast.Add | ast.Sub):
            for name in (part for part in (side.left, side.right) if isinstance(part, ast.Name)):
                if _MARK.search(name.id) and _set_in_loop(module, name):
                    return True
    return False


def _passes_distance(module: ModuleIndex, test: ast.expr, part: ast.Compare, holds: bool) -> bool:
    """``if step - self.shown >= 100: self.shown = step``, ``if now - self.shown < 10: return`` before that."""
    reached = ast.GtE | ast.Gt if holds else ast.Lt | ast.LtE
    match part:
        case ast.Compare(
            left=ast.BinOp(left=now, op=ast.Sub(), right=ast.Name() | ast.Attribute() as mark),
            ops=[op],
            comparators=[least],
        ) if isinstance(op, reached) and not _is_one(least):
            counts = _asks_clock(now) or _COUNTS.search(last_name(now)) is not None
            return counts and any(_sets(statement, mark) for statement in _then(module, test, holds))
    return False


def _moves_threshold(module: ModuleIndex, test: ast.expr, part: ast.Compare, holds: bool) -> bool:
    """Return whether a branch moves the number on that its test has passed: ``if seen >= due: ...; due = seen +
    1000``, ``due *= 2``, ``if seen < due: return`` before that."""
    if len(part.ops) > 1:
        return False
    left, right = (part.left, part.comparators[0]) if holds else (part.comparators[0], part.left)
    match part.ops[0]:
        case ast.Gt() | ast.GtE():
            mark = right
        case ast.Lt() | ast.LtE():
            mark = left
        case _:
            return False
    if not isinstance(mark, ast.Name | ast.Attribute):
        return False
    name = ast.unparse(mark)
    for statement in _then(module, test, holds):
        match statement:
            case ast.AugAssign(target=target, op=ast.Add() | ast.Mult(), value=step) if ast.unparse(target) == name:
                return not _is_one(step)
            case ast.Assign(targets=[target], value=ast.BinOp(left=now, op=ast.Add() | ast.Mult(), right=step)) if (
                ast.unparse(target) == name
            ):
                return not (_is_one(now) or _is_one(step))
    return False


def sets_record(module: ModuleIndex, test: ast.expr, holds: bool) -> bool:
    """Return whether a branch keeps the value that its test has found better than any before: ``if score > best: best =
    score``."""
    compares = [part for part in walk(test) if isinstance(part, ast.Compare) and len(part.ops) == 1]
    pairs = {
        frozenset((ast.unparse(part.left), ast.unparse(part.comparators[0])))
        for part in compares
        if isinstance(part.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE)
    }
    return bool(pairs) and any(
        isinstance(statement, ast.Assign)
        and len(statement.targets) == 1
        and frozenset((ast.unparse(statement.targets[0]), ast.unparse(statement.value))) in pairs
        for statement in _then(module, test, holds)
    )


def _then(module: ModuleIndex, test: ast.expr, holds: bool) -> list[ast.stmt]:
    """Return what runs once a test holds, or after a branch that leaves where it does."""
    branch = module.syntax.parents.get(test)
    if not isinstance(branch, ast.If):
        return []
    if not holds and branch.orelse:
        return branch.orelse
    place = None if holds else module.syntax.place(branch)
    return branch.body if place is None else getattr(module.syntax.parents[branch], place[0])[place[1] + 1 :]


def _is_one(step: ast.expr) -> bool:
    return isinstance(step, ast.Constant) and step.value == 1


def _set_in_loop(module: ModuleIndex, name: ast.Name) -> bool:
    for up in module.syntax.ancestors(name):
        if isinstance(up, ast.For | ast.AsyncFor | ast.While):
            return any(
                isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store) and part.id == name.id
                for part in walk(up)
            )
        if isinstance(up, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
            return False
    return False


def _moves_to_next(module: ModuleIndex, test: ast.expr, part: ast.Compare) -> bool:
    """``if window != last: last = window`` of ``window = step // 100``."""
    branch = module.syntax.parents.get(test)
    if not isinstance(part.ops[0], ast.NotEq | ast.Gt) or not isinstance(branch, ast.If):
        return False
    for now, mark in ((part.left, part.comparators[0]), (part.comparators[0], part.left)):
        if isinstance(mark, ast.Name | ast.Attribute) and _is_whole_part(module, now):
            return any(_sets(statement, mark) for statement in branch.body)
    return False


def _is_whole_part(module: ModuleIndex, node: ast.expr) -> bool:
    """``step // 100``, also by a name."""
    if isinstance(node, ast.Name):
        bindings = module.scope(node).lookup(node.id)
        node = bindings[0].value if len(bindings) == 1 and bindings[0].value is not None else node
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv) and not _is_one(node.right)


def _starts_anew(module: ModuleIndex, test: ast.expr, part: ast.Compare, holds: bool) -> bool:
    """``if count >= 100: count = 0``, ``if len(rows) < 100: return`` before ``rows.clear()``."""
    if len(part.ops) > 1:
        return False
    reached = ast.GtE | ast.Gt | ast.Eq if holds else ast.Lt | ast.LtE | ast.NotEq
    if not isinstance(part.ops[0], reached) or _is_one(part.comparators[0]):
        return False
    after = _then(module, test, holds)
    match part.left:
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name() | ast.Attribute() as rows]):
            return any(_sets(statement, rows) or _clears(statement, rows) for statement in after)
        case ast.Name() | ast.Attribute() as count:
            return _is_counted(module, count) and any(_sets(statement, count) for statement in after)
    return False


def _sets(statement: ast.stmt, owner: ast.expr) -> bool:
    return isinstance(statement, ast.Assign) and ast.unparse(owner) in map(ast.unparse, statement.targets)


def _clears(statement: ast.stmt, owner: ast.expr) -> bool:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=cleared, attr="clear"))):
            return ast.unparse(cleared) == ast.unparse(owner)
    return False


def _is_counted(module: ModuleIndex, count: ast.expr) -> bool:
    """Return whether the function of a test counts a number up or down (``count += 1``), or its class does."""
    home = module.class_of(count) if isinstance(count, ast.Attribute) else module.function(count)
    text = ast.unparse(count)
    return any(
        (module.class_of(one) if isinstance(count, ast.Attribute) else module.function(one)) is home
        and ast.unparse(one.target) == text
        for one in module.syntax.of(ast.AugAssign)
    )
