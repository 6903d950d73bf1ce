"""Metrics that each step has libraries of the host compute: their work takes longer than the copies that they get."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import takewhile

from gpulint.libraries import Models
from gpulint.libraries.names import matches
from gpulint.libraries.operations import Sync
from gpulint.placement.sync_points import SyncKind, SyncPoint
from gpulint.project import Project
from gpulint.query import query
from gpulint.records import dataclass
from gpulint.semantic.points_to import Resolver
from gpulint.training.guards import Guards
from gpulint.training.loop_contexts import LoopContext
from gpulint.training.loop_roles import Role
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef, last_name
from gpulint_rules.data.shown_values import followed
from gpulint_rules.data.wait_counts import inner_loops

MAX_HELPERS = 8
"""Most functions of the tree that are looked into for a metric."""


class _Scores:
    """What is known of metrics that the host computes."""

    def __init__(self, models: Models) -> None:
        rows: tuple[Sync, ...] = models.rows("sync")
        self.calls = tuple(name for row in rows if row.kind == "score" for name in row.calls)


@dataclass(frozen=True, slots=True)
class HostMetric:
    """The name of what is called, and whether each step does so in an inner loop."""

    name: str
    repeated: bool

    @property
    def said(self) -> str:
        """What a message adds."""
        return f"which runs {self.name}() on the CPU" + (" in an inner loop" if self.repeated else "")

    @property
    def advice(self) -> str:
        """What to do instead."""
        often = "each call of it in the inner loop" if self.repeated else "it"
        return (
            f"compute `{self.name}` every N iterations, on the GPU (`torchmetrics`), or after `optimizer.step()`: "
            f"{often} takes the CPU longer than the copy, while the GPU idles"
        )


def host_metric(project: Project, module: ModuleIndex, sync: SyncPoint, context: LoopContext) -> HostMetric | None:
    """Return the metric that each step computes on the host of a copy; None if a read has another use."""
    if sync.kind is not SyncKind.READ or context.role is not Role.STEP:
        return None
    guards = project.fact(Guards)
    for call in _users(module, sync.node):
        name = _metric_of(project, module, call)
        if name and not guards.is_periodic(module, call) and not _is_below(module, call, context):
            return HostMetric(name, bool(inner_loops(module, call, context.loop.node)))
    return None


def metric_advice(project: Project, module: ModuleIndex, sync: SyncPoint, context: LoopContext) -> str:
    """Return what to do about the metric that a read is for; empty for another use."""
    metric = host_metric(project, module, sync, context)
    return metric.advice if metric is not None else ""


def _users(module: ModuleIndex, node: ast.expr) -> Iterator[ast.Call]:
    """Yield the calls that get a value, or what is made of it."""
    for use in followed(module, node):
        for up in takewhile(lambda up: not isinstance(up, ast.stmt), module.syntax.ancestors(use)):
            if isinstance(up, ast.Call) and use is not up.func:
                yield up


def _is_below(module: ModuleIndex, call: ast.Call, context: LoopContext) -> bool:
    """Return whether a call is in the function of the loop, but not in the loop: of an epoch's values, once."""
    loop = context.loop
    if context.calls or loop.module is not module or isinstance(loop.node, FUNCTIONS):
        return False
    return loop.node not in module.syntax.ancestors(call)


def _metric_of(project: Project, module: ModuleIndex, call: ast.Call) -> str:
    """Return the name of the metric that a call computes, by itself or in a function of the tree."""
    if _is_metric(project, module, call):
        return last_name(call.func)
    helpers = [one for one in project.fact(Resolver).callees(module, call) if isinstance(one.node, FUNCTIONS)]
    computes = any(_computes_metric(project, helper) for helper in helpers[:MAX_HELPERS])
    return last_name(call.func) if computes else ""


@query
def _computes_metric(project: Project, helper: NodeRef) -> bool:
    return any(_is_metric(project, helper.module, part) for part in helper.module.calls_of(helper.node))


def _is_metric(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    return matches(project.models.derived(_Scores).calls, project.fact(Resolver).call_names(module, call))
