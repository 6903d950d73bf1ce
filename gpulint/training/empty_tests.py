"""Tests for something that is empty: what stands in for it is seldom needed."""

from __future__ import annotations

import ast

from gpulint.query import query
from gpulint.semantic.path_conditions import conditions
from gpulint.workspace.module_index import ModuleIndex, last_name

_COUNTS = frozenset({"len", "numel", "nelement"})
_EMPTY = {(ast.Eq, 0), (ast.LtE, 0), (ast.Lt, 1)}
_FILLED = {(ast.NotEq, 0), (ast.Gt, 0), (ast.GtE, 1)}


def is_for_empty(module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a place runs only where something holds no element (the ``else`` of ``if len(boxes) > 0``)."""
    return any(_says_empty(module, test, holds) for test, holds in conditions(module, node))


@query
def _says_empty(module: ModuleIndex, test: ast.expr, holds: bool) -> bool:
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return _says_empty(module, inner, not holds)
        case ast.BoolOp(op=operator, values=parts):
            found = [_says_empty(module, part, holds) for part in parts]
            return any(found) if isinstance(operator, ast.And) is holds else all(found)
        case ast.Call(func=func):
            return last_name(func) in _COUNTS and not holds
        case ast.Compare(left=ast.Call(func=func), ops=[operator], comparators=[ast.Constant(value=int(limit))]):
            counted = (type(operator), limit)
            return last_name(func) in _COUNTS and counted in (_EMPTY if holds else _FILLED)
    return False
