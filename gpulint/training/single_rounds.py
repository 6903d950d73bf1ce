"""Loops that are left in their first round, whatever happens in it."""

from __future__ import annotations

import ast

from gpulint.workspace.module_index import FUNCTIONS, LOOPS, LoopNode


def ends_at_once(loop: LoopNode) -> bool:
    """Return whether each way through a loop leaves it in the first round: its body ends with ``return`` or ``break``,
    perhaps in a ``with`` block or in both branches of an ``if``, and nothing continues it."""
    if not _leaves(loop.body):
        return False
    todo: list[ast.AST] = [*loop.body]
    while todo:
        part = todo.pop()
        if isinstance(part, ast.Continue):
            return False
        if not isinstance(part, (*LOOPS, *FUNCTIONS, ast.ClassDef, ast.expr)):
            todo += ast.iter_child_nodes(part)
    return True


def _leaves(body: list[ast.stmt]) -> bool:
    """Return whether the last of some statements leaves the loop around them."""
    match body[-1]:
        case ast.Return() | ast.Break() | ast.Raise():
            return True
        case ast.With(body=inner) | ast.AsyncWith(body=inner):
            return _leaves(inner)
        case ast.If(body=inner, orelse=[_, *_] as otherwise):
            return _leaves(inner) and _leaves(otherwise)
    return False
