"""Places of which one round of a loop reaches only some, as they are in branches of one test."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TypeVar

from gpulint.placement.sync_points import SyncPoint
from gpulint.project import Project
from gpulint.semantic.path_conditions import conditions
from gpulint.training.guards import Guards, is_of_processes
from gpulint.training.loop_contexts import LoopContext, LoopContexts
from gpulint.workspace.module_index import LOOPS, ModuleIndex, NodeRef

Node = TypeVar("Node", bound=ast.AST)
MAX_PLACES = 20
"""Most places of one loop whose branches are compared."""
MAX_TESTS = 3
"""Most tests within each other."""


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


def reached_with(
    module: ModuleIndex, node: ast.AST, context: LoopContext, places: Sequence[tuple[Node, LoopContext]]
) -> list[Node]:
    """Return the most places that one round reaches which reaches ``node``. The branches of the calls that lead there
    count as well."""
    here = _tests_on_way(module, node, context)
    ways = [(one, _tests_on_way(module, one, way)) for one, way in places]
    return _most(
        [(one, tests) for one, tests in ways if all(here.get(test, holds) is holds for test, holds in tests.items())]
    )


def in_all_branches(module: ModuleIndex, nodes: Sequence[Node], loop: ast.AST) -> list[Node]:
    """Return places of which each round of a loop reaches one, as they are in all branches of a test; else none."""
    ways = {
        frozenset((id(test), holds) for test, holds in conditions(module, node, loop)) for node in nodes[:MAX_PLACES]
    }
    for _ in range(MAX_TESTS):
        ways |= {
            way - {(test, True)}
            for way in ways
            for test, holds in way
            if holds and (way - {(test, True)}) | {(test, False)} in ways
        }
    return [*nodes] if frozenset() in ways else []


def unconditional(project: Project, module: ModuleIndex, syncs: Sequence[SyncPoint], loop: ast.AST) -> list[ast.expr]:
    """Return the places that each round of a loop gets to."""
    guards = project.fact(Guards)
    return [sync.node for sync in syncs if not guards.is_conditional(module, sync.node, loop)]


def surely_reached(
    project: Project, module: ModuleIndex, syncs: Sequence[SyncPoint], deciding: Sequence[ast.expr], loop: ast.AST
) -> tuple[list[ast.expr], list[ast.expr]]:
    """Return the places that each round gets to, and those of which it gets to one. Of the latter, whatever unknown
    settings say: the branches of such a test count as well."""
    sure = unconditional(project, module, syncs, loop)
    either = [] if sure else in_all_branches(module, deciding, loop)
    return [*sure, *either], either


def is_of_some(module: ModuleIndex, node: ast.AST, loop: ast.AST) -> bool:
    """Return whether only some processes run a place: those of ``rank == 0``."""
    return any(is_of_processes(module, test) for test, _ in conditions(module, node, loop))


def _tests_on_way(module: ModuleIndex, node: ast.AST, context: LoopContext) -> dict[int, bool]:
    """Return the tests around a place and around the calls that lead to it, and how they come out."""
    places = [*((site.module, site.node) for site in context.calls), (module, node)]
    return {id(test): holds for where, one in places for test, holds in conditions(where, one)}


def _most(places: list[tuple[Node, dict[int, bool]]]) -> list[Node]:
    """Return the places without those of the smaller branch of each test."""
    for test in {test: None for _, tests in places for test in tests}:
        sides = [[place for place in places if place[1].get(test) is side] for side in (True, False)]
        if all(sides):
            fewer = min(reversed(sides), key=len)
            return _most([place for place in places if place not in fewer])
    return [node for node, _ in places]
