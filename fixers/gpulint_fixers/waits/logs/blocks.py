"""Statements of one block: which follow each other, and where one stands."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from gpulint.workspace.module_index import ModuleIndex


def adjacent(module: ModuleIndex, statements: Iterable[ast.stmt]) -> list[list[ast.stmt]]:
    """Statements in order, those together that follow each other in a block."""
    found = list[list[ast.stmt]]()
    for statement in sorted(statements, key=lambda one: one.lineno):
        block, at = block_around(module, statement)
        if found and at > 0 and block[at - 1] is found[-1][-1]:
            found[-1].append(statement)
        else:
            found.append([statement])
    return found


def block_around(module: ModuleIndex, statement: ast.stmt) -> tuple[list[ast.stmt], int]:
    """The block of a statement, and where it stands in it."""
    place, parent = module.syntax.place(statement), module.syntax.parents.get(statement)
    if place is None or parent is None:
        return [statement], 0
    block: list[ast.stmt] = getattr(parent, place[0])
    return block, place[1]
