"""Loaders in attributes that each round of a loop replaces: lasting workers of one are of no use to the next, and those
of the last one would stay alive as long as the object."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.placement.batch_flow import BatchFlow
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.training.one_item_loops import has_one_round
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, NodeRef

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader

_CALLS = 3
"""Calls between a loop and what it makes or draws in each round."""


@query
def is_replaced_each_round(project: Project, loader: Loader) -> bool:
    """Return whether a loop makes the loader anew in each round (``self.loader = DataLoader(part)``), perhaps in a
    method that it calls, and no epochs within a round draw from it."""
    match loader.module.syntax.parents.get(loader.node):
        case ast.Assign(targets=[ast.Attribute()]) | ast.AnnAssign(target=ast.Attribute()):
            rounds = _rounds(project, loader.call, _CALLS)
        case _:
            return False
    reads = project.fact(BatchFlow).of_loader(loader.module, loader.node) if rounds else ()
    return bool(reads) and not any(_is_in_epochs(project, read.where, rounds) for read in reads)


def _rounds(project: Project, place: NodeRef, calls: int) -> list[NodeRef]:
    """Return the loops of several rounds around a place in its function, or else those around each of the calls that
    lead there; empty if a way leads there without one."""
    loops = list(_loops_around(project, place))
    function = place.module.function(place.node)
    if loops or function is None or not calls:
        return loops
    found = [_rounds(project, site, calls - 1) for site in project.fact(Resolver).call_sites(place.module, function)]
    return [loop for one in found for loop in one] if all(found) else []


def _loops_around(project: Project, place: NodeRef) -> Iterator[NodeRef]:
    for up in place.module.syntax.ancestors(place.node):
        if isinstance(up, FUNCTIONS):
            return
        if isinstance(up, LOOPS) and up is not place.node and not has_one_round(project, place.module, up):
            yield NodeRef(place.module, up)


def _is_in_epochs(project: Project, read: NodeRef, rounds: list[NodeRef]) -> bool:
    """Return whether a loop over epochs draws again from the loader of a round: one that is not around the rounds."""
    homes = {loop.module.function(loop.node) for loop in rounds}
    outer = {loop.node for loop in rounds}
    level, seen = [read], set[ast.AST]()
    for _ in range(_CALLS + 1):
        up = list[NodeRef]()
        for place in level:
            loops = _loops_around(project, place)
            if any(_is_epoch(project, loop) for loop in loops if loop.node not in outer):
                return True
            function = place.module.function(place.node)
            if function is not None and function not in homes and function not in seen:
                seen.add(function)
                up += project.fact(Resolver).call_sites(place.module, function)
        level = up
    return False


def _is_epoch(project: Project, loop: NodeRef) -> bool:
    assert isinstance(loop.node, LOOPS)
    return project.fact(LoopContexts).role(loop.module, loop.node) is Role.EPOCH
