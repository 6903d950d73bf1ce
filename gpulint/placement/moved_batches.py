"""Batches of which only some runs of a program make a copy on a GPU: ``if args.cuda: x = x.cuda()``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.placement.batch_flow import BatchFlow
from gpulint.placement.device_transfers import DeviceTransfers
from gpulint.placement.host_results import copies_to_host
from gpulint.query import cyclic
from gpulint.semantic.argument_binding import argument_of
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.training.forward_calls import forward_calls
from gpulint.training.guards import Guards
from gpulint.workspace.module_index import FUNCTIONS, Binding, BindingKind, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_LEAVES = frozenset({"cpu", "numpy", "item", "tolist"})
"""Methods whose result is in host memory, wherever the tensor was."""


@cyclic(False)
def may_be_moved(project: Project, module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a part of a batch is, or is made of, what may be a copy on a GPU: by a call in the expression, by
    an assignment to a variable, or by one that stands before a call which hands the variable to a parameter."""
    transfers, flow = project.fact(DeviceTransfers), project.fact(BatchFlow)
    pending: list[ast.AST] = [node]
    while pending:
        part = pending.pop()
        if isinstance(part, ast.Call):
            if last_name(part.func) in _LEAVES or copies_to_host(part):
                continue
            move = transfers.transfer_at(module, part)
            if move is not None and move.to_gpu and not project.fact(Guards).is_switched_off(module, part):
                return True
            if any(may_be_moved(project, *value) for value in _returned(project, module, part)):
                return True
        if not isinstance(part, ast.Name):
            pending += ast.iter_child_nodes(part)
        elif isinstance(part.ctx, ast.Load) and flow.batch_of(module, part) is not None:
            bindings = reaching(module, module.scope(part).lookup(part.id), part)
            sources = (source for one in bindings for source in _sources(project, module, one))
            if any(may_be_moved(project, *source) for source in (*_stored(module, part), *sources)):
                return True
    return False


def _returned(project: Project, module: ModuleIndex, call: ast.Call) -> list[tuple[ModuleIndex, ast.expr]]:
    """What functions of the tree return to a call."""
    resolver = project.fact(Resolver)
    return [
        (one.module, value)
        for one in resolver.callees(module, call)
        if isinstance(one.node, FUNCTIONS)
        for value in resolver.returns(one.node)
    ]


def _stored(module: ModuleIndex, use: ast.Name) -> Iterator[tuple[ModuleIndex, ast.expr]]:
    """Yield what the same function stores above under the keys of a variable: ``batch[key] = batch[key].cuda()``."""
    for other in module.uses.get(use.id, ()):
        entry = module.syntax.parents.get(other)
        if not isinstance(entry, ast.Subscript) or not isinstance(entry.ctx, ast.Store) or other.lineno >= use.lineno:
            continue
        home = module.syntax.parents.get(entry)
        if isinstance(home, ast.Assign) and module.function(home) is module.function(use):
            yield module, home.value


def _sources(project: Project, module: ModuleIndex, binding: Binding) -> list[tuple[ModuleIndex, ast.expr]]:
    """What a variable gets by a binding, if that is a batch: of a parameter, what calls hand over."""
    if binding.kind is BindingKind.PARAMETER:
        return _handed(project, module, binding)
    value = binding.value
    if binding.kind is BindingKind.ASSIGN:
        for index in binding.path:
            if not isinstance(value, ast.Tuple | ast.List) or not 0 <= index < len(value.elts):
                break
            value = value.elts[index]
    elif binding.kind is not BindingKind.LOOP:
        return []
    return [(module, value)] if value is not None else []


def _handed(project: Project, module: ModuleIndex, binding: Binding) -> list[tuple[ModuleIndex, ast.expr]]:
    function, name = binding.scope.node, getattr(binding.node, "arg", "")
    if not isinstance(function, FUNCTIONS):
        return []
    sites = project.fact(Resolver).call_sites(module, function)
    if not sites and function.name == "forward":
        sites = forward_calls(project, module, function)
    return [(site.module, value) for site in sites if (value := _argument(site, function, name)) is not None]


def _argument(site: NodeRef, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> ast.expr | None:
    return argument_of(function, site.node, name) if isinstance(site.node, ast.Call) else None
