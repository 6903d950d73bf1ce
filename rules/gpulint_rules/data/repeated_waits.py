"""Waits that an inner loop repeats although one would do: a test of each parameter, a read of each element."""

from __future__ import annotations

import ast

from gpulint.placement.sync_points import SyncKind, SyncPoint
from gpulint.placement.synchronization import SyncPoints
from gpulint.project import Project
from gpulint.semantic.path_conditions import conditions
from gpulint.training.loop_contexts import LoopContext
from gpulint.workspace.module_index import ModuleIndex
from gpulint_rules.data.wait_counts import inner_loops, is_over_parameters

MANY_CALLS = 4
"""Calls of a helper in one function from which on it is one that looks at every intermediate result (assumed)."""


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


def tests_parameters(module: ModuleIndex, sync: SyncPoint, loop: ast.AST) -> bool:
    """``for p in model.parameters(): if torch.isnan(p.grad).any()``"""
    return sync.kind is SyncKind.TEST and any(map(is_over_parameters, inner_loops(module, sync.node, loop)))
