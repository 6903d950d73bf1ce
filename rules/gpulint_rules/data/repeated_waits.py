"""Waits that an inner loop repeats although one would do: a test of each parameter, a read of each element."""

from __future__ import annotations

import ast

from gpulint.placement.sync_points import SyncKind, SyncPoint
from gpulint.placement.synchronization import SyncPoints
from gpulint.project import Project
from gpulint.semantic.path_conditions import conditions
from gpulint.training.loop_contexts import LoopContext
from gpulint.workspace.module_index import ModuleIndex, NodeRef, last_name
from gpulint_rules.data.wait_counts import inner_loops, is_over_parameters

MANY_CALLS = 4
"""Calls of a helper in one function from which on it is one that looks at every intermediate result (assumed)."""
_TO_HOST = frozenset({"item", "float", "int", "bool", "tolist", "cpu", "numpy"})
"""Calls that give what is stored without a wait: a number of the host fills a mask."""


def is_repeated(project: Project, module: ModuleIndex, sync: SyncPoint, context: LoopContext) -> bool:
    """Return whether each round of a loop waits there many times for what it could have at once. Even if a step needs
    the values, it does not need these waits."""
    if tests_parameters(module, sync, context.loop.node) or times_called(context) >= MANY_CALLS:
        return True
    return sync.kind is SyncKind.READ and bool(project.fact(SyncPoints).read_one_by_one(module, sync))


def times_called(context: LoopContext) -> int:
    """Return how many calls of the function that waits stand one after the other where the step calls it:
    ``self._check_nan("logits", logits)``."""
    site = context.calls[-1] if context.calls else None
    if site is None or not isinstance(site.node, ast.Call):
        return 1
    helper = ast.unparse(site.node.func)
    around = {(id(test), holds) for test, holds in conditions(site.module, site.node)}
    return sum(
        ast.unparse(call.func) == helper
        and all((id(test), not holds) not in around for test, holds in conditions(site.module, call))
        for call in site.module.calls_of(site.module.function(site.node))
    )


def times_reached(project: Project, module: ModuleIndex, sync: SyncPoint, context: LoopContext) -> int:
    """Return how often a step surely calls the function that waits, by the calls of it in the same places; 0 where a
    loop makes them. A call that hands over a number, or what is on the host, does not wait."""
    times = 1
    for number, site in enumerate(context.calls):
        function = site.module.function(site.node)
        around = context.loop.node if number == 0 else function
        if not isinstance(site.node, ast.Call) or around is None:
            continue
        if inner_loops(site.module, site.node, around):
            return 0
        named = site.module.calls_by_name.get(last_name(site.node.func), ())
        others = (one for one in named if site.module.function(one) is function and _is_beside(site, one, around))
        last = number == len(context.calls) - 1
        before, syncs = context.calls[:number], project.fact(SyncPoints)
        times *= 1 + sum(
            not last or not syncs.gets_numbers(module, sync, (*before, NodeRef(site.module, one))) for one in others
        )
    return times


def _is_beside(site: NodeRef, call: ast.Call, around: ast.AST) -> bool:
    """Return whether another call of the same function runs whenever one does, once for it."""
    module = site.module
    if call is site.node or ast.unparse(call.func) != ast.unparse(site.node.func):  # type: ignore[attr-defined]
        return False
    if around not in module.syntax.ancestors(call) or inner_loops(module, call, around):
        return False
    known = {(id(test), holds) for test, holds in conditions(module, site.node, around)}
    return {(id(test), holds) for test, holds in conditions(module, call, around)} <= known


def writes_of(module: ModuleIndex, sync: SyncPoint) -> ast.stmt | None:
    """Return the statement that stores what a mask picks under the same mask, for which the host counts the elements
    once more: ``x[mask] = scale * y[mask]``. A number fills the mask without a wait."""
    if sync.kind is not SyncKind.SELECT or not isinstance(sync.node, ast.Subscript):
        return None
    for up in module.syntax.ancestors(sync.node):
        match up:
            case ast.Call(func=func) if last_name(func) in _TO_HOST:
                return None
            case ast.Assign(targets=[ast.Subscript(slice=mask)]) if ast.unparse(mask) == ast.unparse(sync.node.slice):
                return up
            case ast.stmt():
                return None
    return None


def tests_parameters(module: ModuleIndex, sync: SyncPoint, loop: ast.AST) -> bool:
    """``for p in model.parameters(): if torch.isnan(p.grad).any()``"""
    return sync.kind is SyncKind.TEST and any(map(is_over_parameters, inner_loops(module, sync.node, loop)))
