"""Tests for how far a number has come since a mark, which is moved on each time they hold."""

from __future__ import annotations

import ast
import re

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex

_MARK = regex.compile(r"(^|_)(start|last|prev|previous)(_|$)", re.IGNORECASE)


def passes_mark(module: ModuleIndex, test: ast.expr, part: ast.Compare, holds: bool) -> bool:
    """Return whether a part of a test asks how far a number has come since a mark, which is moved on in the loop."""
    return _waits_since(module, part) or (holds and _moves_threshold(module, test, part))


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


def _moves_threshold(module: ModuleIndex, test: ast.expr, part: ast.Compare) -> bool:
    """Return whether a branch moves the number on that its test has passed: ``if seen >= due: ...; due = seen +
    1000``."""
    match part:
        case ast.Compare(ops=[ast.Gt() | ast.GtE()], comparators=[ast.Name(id=name)]):
            pass
        case ast.Compare(left=ast.Name(id=name), ops=[ast.Lt() | ast.LtE()]):
            pass
        case _:
            return False
    branch = module.syntax.parents.get(test)
    if not isinstance(branch, ast.If):
        return False
    for statement in branch.body:
        match statement:
            case ast.AugAssign(target=ast.Name(id=moved), op=ast.Add(), value=step) if moved == name:
                return not _is_one(step)
            case ast.Assign(targets=[ast.Name(id=moved)], value=ast.BinOp(left=left, op=ast.Add(), right=right)) if (
                moved == name
            ):
                return not (_is_one(left) or _is_one(right))
    return False


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
