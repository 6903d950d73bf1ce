"""Reads of inner loops right beside a wait that stays, in the same function or in what it calls."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gpulint.placement.sync_points import SyncPoint
from gpulint.project import Project
from gpulint.training.loop_contexts import LoopContext
from gpulint.workspace.module_index import ModuleIndex
from gpulint_rules.data.exclusive_branches import is_of_some, unconditional
from gpulint_rules.data.wait_counts import inner_loops, is_at_end, is_beside_one, runs_few

Found = Sequence[tuple[SyncPoint, LoopContext]]


def are_beside(
    module: ModuleIndex, deep: Sequence[SyncPoint], firm: Sequence[ast.expr], shown: Sequence[ast.expr], found: Found
) -> bool:
    """Return whether a wait stays beside which all others are nearly free: one for a value that each step needs, or,
    for the reads of an inner loop at its end, shows. Those of inner loops have few rounds, and are right before or
    behind it, or each round of their loops has a wait that stays."""
    loop = found[0][1].loop.node
    if firm and _are_few_beside(module, deep, firm, found):
        return True
    lasting = [node for node in shown if not inner_loops(module, node, loop)]
    if not deep or not lasting or not is_at_end(module, deep, loop):
        return False
    return _are_few_beside(module, deep, [*firm, *lasting], found)


def waits_in_rounds(
    project: Project, module: ModuleIndex, staying: Sequence[SyncPoint], deep: Sequence[SyncPoint], loop: ast.AST
) -> list[ast.expr]:
    """Return, by line, the other places that wait in each round of the one inner loop that all ``deep`` reads are in,
    also where steps may pass by that loop."""
    around = {next(iter(inner_loops(module, sync.node, loop)), None) for sync in deep}
    rounds = around.pop() if len(around) == 1 else None
    if rounds is None:
        return []
    own = {sync.node for sync in deep}
    inside = [one for one in staying if one.node not in own and rounds in inner_loops(module, one.node, loop)]
    reached = [one for one in unconditional(project, module, inside, rounds) if not is_of_some(module, one, loop)]
    return sorted(reached, key=lambda node: node.lineno)


def _are_few_beside(module: ModuleIndex, deep: Sequence[SyncPoint], firm: Sequence[ast.expr], found: Found) -> bool:
    loop = found[0][1].loop.node
    waits = _places(module, found, firm)
    return all(
        _waits_in_each(module, sync, firm, loop)
        or (
            runs_few(module, sync.node, loop)
            and any(is_beside_one(module, waits, place) for place in _places(module, found, [sync.node]))
        )
        for sync in deep
    )


def _waits_in_each(module: ModuleIndex, sync: SyncPoint, firm: Sequence[ast.expr], loop: ast.AST) -> bool:
    """Return whether each round of the innermost loop around a read waits for something else as well."""
    around = inner_loops(module, sync.node, loop)
    return bool(around) and any(around[0] in inner_loops(module, one, loop) for one in firm if one is not sync.node)


def _places(module: ModuleIndex, found: Found, nodes: Sequence[ast.expr]) -> list[ast.expr]:
    """Return places, and the calls in the same module on the way to them."""
    calls = [
        site.node
        for sync, context in found
        if sync.node in nodes
        for site in context.calls
        if site.module is module and isinstance(site.node, ast.expr)
    ]
    return [*nodes, *calls]
