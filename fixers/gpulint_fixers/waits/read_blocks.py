"""Blocks whose statements read a deferred variable: one line at the top of a block converts it for all below."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from gpulint.workspace.module_index import ModuleIndex


def block_of(module: ModuleIndex, statement: ast.stmt) -> tuple[ast.AST, str]:
    """The block that holds a statement; one whose own condition reads counts as a block of its own."""
    return (statement, "") if hasattr(statement, "body") else _around(module, statement)


def is_converted_above(
    module: ModuleIndex, statement: ast.stmt, converted: Iterable[ast.stmt], additions: Iterable[ast.stmt]
) -> bool:
    """Return whether a line above one of the ``converted`` statements, in a block around this one, has made a number of
    the variable, and nothing was added to it since."""
    outer = {
        _around(module, up): up.lineno
        for up in (statement, *module.syntax.ancestors(statement))
        if isinstance(up, ast.stmt)
    }
    return any(
        first.lineno < outer.get(_around(module, first), 0)
        and not any(first.lineno < addition.lineno < statement.lineno for addition in additions)
        for first in converted
    )


def _around(module: ModuleIndex, statement: ast.stmt) -> tuple[ast.AST, str]:
    place = module.syntax.place(statement)
    return (module.syntax.parents[statement], place[0]) if place is not None else (statement, "")
