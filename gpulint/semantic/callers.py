"""The call sites that lead to a place, through several calls."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from gpulint.semantic.points_to import Resolver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpulint.project import Project
    from gpulint.workspace.module_index import FunctionNode, ModuleIndex, NodeRef


class CallingPlace(NamedTuple):
    """The place itself, or a call that leads to it."""

    ref: NodeRef
    function: FunctionNode | None
    """The function around it, if any."""


def callers(project: Project, place: NodeRef, calls: int) -> Iterator[CallingPlace]:
    """Yield a place and the calls that lead to it through at most ``calls`` calls, the nearest first.

    The call sites of a function are yielded once, however many ways lead there: ways may be as many as the product of
    the calls of each function.
    """
    level = [place]
    seen: set[FunctionNode] = set()
    for left in range(calls, -1, -1):
        up: list[NodeRef] = []
        for ref in level:
            function = ref.module.function(ref.node)
            yield CallingPlace(ref, function)
            if left and function is not None and function not in seen:
                seen.add(function)
                up += project.fact(Resolver).call_sites(ref.module, function)
        level = up


def is_on_each_way(project: Project, place: NodeRef, holds: Callable[[ModuleIndex, ast.AST], bool], calls: int) -> bool:
    """Return whether something holds of a place, or of all calls that lead to it through at most ``calls`` calls."""
    known: dict[tuple[FunctionNode, int], bool] = {}

    def is_on_each(ref: NodeRef, left: int) -> bool:
        if holds(ref.module, ref.node):
            return True
        function = ref.module.function(ref.node)
        if function is None or not left:
            return False
        if (function, left) not in known:
            sites = project.fact(Resolver).call_sites(ref.module, function)
            known[function, left] = bool(sites) and all(is_on_each(site, left - 1) for site in sites)
        return known[function, left]

    return is_on_each(place, calls)
