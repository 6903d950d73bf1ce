"""Places of which one round of a loop reaches only some, as they are in branches of one test."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TypeVar

from gpulint.project import Project
from gpulint.semantic.path_conditions import conditions
from gpulint.training.loop_contexts import LoopContexts
from gpulint.workspace.module_index import LOOPS, ModuleIndex, NodeRef

Node = TypeVar("Node", bound=ast.AST)


def exclude(module: ModuleIndex, one: ast.AST, other: ast.AST) -> bool:
    """Return whether two places are branches of one test."""
    tests = {id(test): holds for test, holds in conditions(module, one)}
    return any(tests.get(id(test), holds) is not holds for test, holds in conditions(module, other))


def is_beside_training(project: Project, loop: NodeRef, reached: NodeRef) -> bool:
    """Return whether the rounds of a loop that get to a place take no training step, as one loop trains and evaluates:
    ``else: log(loss)`` of ``if optimizer is not None: loss.backward()``."""
    if reached.module is not loop.module or not isinstance(loop.node, LOOPS):
        return False
    loops = project.fact(LoopContexts)
    steps = [call for call in loops.calls_in(loop.module, loop.node) if loops.is_training_step(loop.module, call)]
    return bool(steps) and all(exclude(loop.module, reached.node, step) for step in steps)


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
