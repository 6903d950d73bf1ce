"""Branches on what a function computes of a tensor that it copies to the host as well: they wait like the copy."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint.placement.computed_values import ComputedValues
from gpulint.placement.host_values import HostValues
from gpulint.placement.sync_points import SyncKind
from gpulint.placement.synchronization import SyncPoints
from gpulint.placement.tensor_location import TensorLocations
from gpulint.project import Project
from gpulint.query import query
from gpulint.workspace.module_index import ModuleIndex
from gpulint_rules.data.shown_values import same_values

_REDUCES = frozenset({"min", "max", "sum", "mean", "any", "all", "norm", "item"})
_ORDERS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_COPIES = frozenset({"cpu", "item", "tolist"})


@query
def tests_of_copied(project: Project, module: ModuleIndex) -> tuple[ast.expr, ...]:
    """Return the conditions of a module that compare one number of such a tensor, and are no findings: ``if
    counts.sum(-1).min() < wanted`` beside ``counts.argsort().cpu()``."""
    branches: Iterator[ast.If | ast.IfExp | ast.While] = module.syntax.of(ast.If, ast.IfExp, ast.While)
    tested = [
        (branch.test, base)
        for branch in branches
        if isinstance(branch.test, ast.Compare) and isinstance(branch.test.ops[0], _ORDERS)
        if (base := _reduced(branch.test.left)) is not None
    ]
    if not tested:
        return ()
    syncs = project.fact(SyncPoints).in_module(module)
    known = {sync.node for sync in syncs}
    copied = {
        use
        for sync in syncs
        if sync.kind is SyncKind.READ and isinstance(sync.node, ast.Call) and _is_copy(sync.node)
        for use in same_values(module, _base(sync.value))
    }
    return tuple(
        test
        for test, base in tested
        if test not in known and base in copied and _is_computed(project, module, test.left)
    )


def _is_computed(project: Project, module: ModuleIndex, value: ast.expr) -> bool:
    """Return whether tensors give a value, and nothing shows that they are on the host."""
    on_host = project.fact(TensorLocations).is_host(module, value) or project.fact(HostValues).holds(module, value)
    return project.fact(ComputedValues).holds(module, value) and not on_host


def _reduced(value: ast.expr) -> ast.Name | None:
    """Return the variable of ``counts.sum(-1).min()``, one number of a tensor."""
    match value:
        case ast.Call(func=ast.Attribute(attr=name), args=[], keywords=[]) if name in _REDUCES:
            return _base(value)
    return None


def _base(value: ast.expr | None) -> ast.Name | None:
    """Return the variable whose methods and parts give a value."""
    while isinstance(value, ast.Call | ast.Attribute | ast.Subscript):
        value = value.func if isinstance(value, ast.Call) else value.value
    return value if isinstance(value, ast.Name) else None


def _is_copy(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in _COPIES
