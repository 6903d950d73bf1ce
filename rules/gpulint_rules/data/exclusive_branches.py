"""Places of which one round of a loop reaches only some, as they are in branches of one test."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TypeVar

from gpulint.semantic.path_conditions import conditions
from gpulint.workspace.module_index import ModuleIndex

Node = TypeVar("Node", bound=ast.AST)


def exclude(module: ModuleIndex, one: ast.AST, other: ast.AST) -> bool:
    """Return whether two places are branches of one test."""
    tests = {id(test): holds for test, holds in conditions(module, one)}
    return any(tests.get(id(test), holds) is not holds for test, holds in conditions(module, other))


def reached_with(module: ModuleIndex, node: ast.AST, places: Sequence[Node]) -> list[Node]:
    """Return the most places that one round reaches which reaches ``node``."""
    return _most([(one, dict(_tests(module, one))) for one in places if not exclude(module, one, node)])


def _tests(module: ModuleIndex, node: ast.AST) -> list[tuple[int, bool]]:
    return [(id(test), holds) for test, holds in conditions(module, node)]


def _most(places: list[tuple[Node, dict[int, bool]]]) -> list[Node]:
    """Return the places without those of the smaller branch of each test."""
    for test in {test: None for _, tests in places for test in tests}:
        sides = [[place for place in places if place[1].get(test) is side] for side in (True, False)]
        if all(sides):
            fewer = min(reversed(sides), key=len)
            return _most([place for place in places if place not in fewer])
    return [node for node, _ in places]
