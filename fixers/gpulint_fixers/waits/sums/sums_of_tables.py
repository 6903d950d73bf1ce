"""Sums over a dictionary that the same step reads: of one entry, which is as usual as several, nothing is gained."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.workspace.module_index import LoopNode, ModuleIndex

_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return)


def is_read_at_once(module: ModuleIndex, loop: LoopNode, name: str) -> bool:
    """Return whether a loop runs over a dictionary (``for key, loss in losses.items()``) and a statement below it, in
    its block, reads a variable whatever happens."""
    match loop:
        case ast.For(iter=ast.Call(func=ast.Attribute(attr="items" | "values"), args=[])):
            pass
        case _:
            return False
    place, parent = module.syntax.place(loop), module.syntax.parents.get(loop)
    below: list[ast.stmt] = [] if place is None or parent is None else getattr(parent, place[0])[place[1] + 1 :]
    return any(
        isinstance(part, ast.Name) and part.id == name and isinstance(part.ctx, ast.Load)
        for one in below
        if isinstance(one, _SIMPLE)
        for part in walk(one)
    )
