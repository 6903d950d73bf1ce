"""Blocks whose statements read a deferred variable: one line at the top of a block converts it for all below."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import TypeAlias

from gpulint.workspace.module_index import COMPREHENSIONS, LOOPS, LoopNode, ModuleIndex
from gpulint_fixers.edits.places import shows

Block: TypeAlias = tuple[ast.AST, str]


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


def joined(
    module: ModuleIndex, blocks: Mapping[Block, dict[ast.stmt, list[ast.Name]]], convert: str, is_whole: bool
) -> list[dict[ast.stmt, list[ast.Name]]]:
    """The uses in blocks, those within an outer block of a condition that has uses itself together with these: one line
    above the first makes a number of the variable for all of them. Parts of lists and tables are read one by one."""
    if convert.startswith(("[", "{", "tuple(")) or not is_whole:
        return [*blocks.values()]
    found = dict(blocks)
    read = [
        key for key, uses in found.items() if not all(shows(module, name, convert) for name in chain(*uses.values()))
    ]
    outer = {key for key in read if key[1] and isinstance(key[0], ast.If)}
    for key in read:
        first = next(iter(found[key]))
        ups = [up for up in (first, *module.syntax.ancestors(first)) if isinstance(up, ast.stmt)]
        places = {_around(module, up): up for up in ups}
        around = [place for place in places if place in outer and place != key]
        if around:
            names = [*chain(*found.pop(key).values())]
            found[around[-1]].setdefault(places[around[-1]], []).extend(names)
    return [*found.values()]


def _around(module: ModuleIndex, statement: ast.stmt) -> tuple[ast.AST, str]:
    place = module.syntax.place(statement)
    return (module.syntax.parents[statement], place[0]) if place is not None else (statement, "")


def is_repeated(module: ModuleIndex, node: ast.AST, loop: LoopNode) -> bool:
    """Return whether a use is repeated for one run of the loop, stands before it, or keeps what it reads."""
    around = set(module.syntax.ancestors(loop))
    if node.lineno < loop.lineno:  # type: ignore[attr-defined]
        return True
    return any(isinstance(up, (*LOOPS, *COMPREHENSIONS)) and up not in around for up in module.syntax.ancestors(node))
