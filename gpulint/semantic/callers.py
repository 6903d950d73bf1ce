"""The call sites that lead to a place, through several calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpulint.semantic.points_to import Resolver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpulint.project import Project
    from gpulint.workspace.module_index import FunctionNode, NodeRef


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
