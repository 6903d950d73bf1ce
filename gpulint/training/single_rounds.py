"""Loops that are left in their first round, whatever happens in it."""

from __future__ import annotations

import ast

from gpulint.workspace.module_index import FUNCTIONS, LOOPS, LoopNode


def ends_at_once(loop: LoopNode) -> bool:
    """Return whether each way through a loop leaves it in the first round: its body ends with ``return`` or ``break``,
    and nothing continues it."""
    if not isinstance(loop.body[-1], ast.Return | ast.Break | ast.Raise):
        return False
    todo: list[ast.AST] = [*loop.body]
    while todo:
        part = todo.pop()
        if isinstance(part, ast.Continue):
            return False
        if not isinstance(part, (*LOOPS, *FUNCTIONS, ast.ClassDef, ast.expr)):
            todo += ast.iter_child_nodes(part)
    return True
