"""Batches of which only some runs of a program make a copy on a GPU: ``if args.cuda: x = x.cuda()``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.placement.batch_flow import BatchFlow
from gpulint.placement.device_transfers import DeviceTransfers
from gpulint.placement.expressions import element
from gpulint.placement.host_results import copies_to_host
from gpulint.query import cyclic
from gpulint.semantic.argument_binding import argument_of
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.training.forward_calls import forward_calls
from gpulint.training.guards import Guards
from gpulint.workspace.module_index import FUNCTIONS, Binding, BindingKind, ModuleIndex, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_LEAVES = frozenset({"cpu", "numpy", "item", "tolist"})
"""Methods whose result is in host memory, wherever the tensor was."""
Source = tuple[ModuleIndex, ast.expr, tuple[int, ...]]
"""What a variable gets, and which part of it."""


@cyclic(False)
def may_be_moved(project: Project, module: ModuleIndex, node: ast.expr, path: tuple[int, ...] = ()) -> bool:
    """Return whether a part of a batch is, or is made of, what may be a copy on a GPU: by a call in the expression, by
    an assignment to a variable, or by one that stands before a call which hands the variable to a parameter. Of what is
    unpacked, the part at ``path`` is asked for."""
    node, path = element(node, path)
    pending: list[ast.AST] = [node]
    while pending:
        part = pending.pop()
        if isinstance(part, ast.Call):
            if last_name(part.func) in _LEAVES or copies_to_host(part):
                continue
            returned = _returned(project, module, part, path if part is node else ())
            if _moves(project, module, part) or any(may_be_moved(project, *source) for source in returned):
                return True
            if returned:
                continue  # it is of the arguments what they return
        if not isinstance(part, ast.Name):
            pending += ast.iter_child_nodes(part)
        elif isinstance(part.ctx, ast.Load) and _is_copy(project, module, part):
            return True
    return False


def _is_copy(project: Project, module: ModuleIndex, use: ast.Name) -> bool:
    """Return whether a variable of a batch may be a copy on a GPU, or is nothing else."""
    if project.fact(BatchFlow).batch_of(module, use) is not None:
        return any(may_be_moved(project, *source) for source in _sources(project, module, use))
    bound = reaching(module, module.scope(use).lookup(use.id), use)
    made = (element(one.value, one.path) for one in bound if one.value is not None)
    moves = (project.fact(DeviceTransfers).transfer_at(module, one) for one, _ in made if isinstance(one, ast.Call))
    return any(move is not None and move.to_gpu and move.batch_read is not None for move in moves)


def _moves(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call moves something to what may be a GPU, unless a constant of the program says no."""
    move = project.fact(DeviceTransfers).transfer_at(module, call)
    return move is not None and move.to_gpu and not project.fact(Guards).is_switched_off(module, call)


def _returned(project: Project, module: ModuleIndex, call: ast.Call, path: tuple[int, ...]) -> list[Source]:
    """Return what functions of the tree return to a call."""
    resolver = project.fact(Resolver)
    return [
        (one.module, value, path)
        for one in resolver.callees(module, call)
        if isinstance(one.node, FUNCTIONS)
        for value in resolver.returns(one.node)
    ]


def _sources(project: Project, module: ModuleIndex, use: ast.Name) -> Iterator[Source]:
    """Yield what a variable is given, and what the same function stores above under its keys (``batch[key] =
    batch[key].cuda()``)."""
    for binding in reaching(module, module.scope(use).lookup(use.id), use):
        if binding.kind is BindingKind.PARAMETER:
            yield from _handed(project, module, binding)
        elif binding.kind in (BindingKind.ASSIGN, BindingKind.LOOP) and binding.value is not None:
            yield module, binding.value, binding.path if binding.kind is BindingKind.ASSIGN else ()
    for other in module.uses.get(use.id, ()):
        entry = module.syntax.parents.get(other)
        if not isinstance(entry, ast.Subscript) or not isinstance(entry.ctx, ast.Store) or other.lineno >= use.lineno:
            continue
        home = module.syntax.parents.get(entry)
        if isinstance(home, ast.Assign) and module.function(home) is module.function(use):
            yield module, home.value, ()


def _handed(project: Project, module: ModuleIndex, binding: Binding) -> Iterator[Source]:
    """Yield what calls hand to a parameter."""
    function, name = binding.scope.node, getattr(binding.node, "arg", "")
    if not isinstance(function, FUNCTIONS):
        return
    sites = project.fact(Resolver).call_sites(module, function)
    if not sites and function.name == "forward":
        sites = forward_calls(project, module, function)
    for site in sites:
        value = argument_of(function, site.node, name) if isinstance(site.node, ast.Call) else None
        if value is not None:
            yield site.module, value, ()
