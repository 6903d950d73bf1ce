"""Values that are read from the GPU, to which the host has just copied them."""

from __future__ import annotations

import ast

from gpulint.placement.device_transfers import DeviceTransfers, Transfer
from gpulint.placement.host_values import HostValues
from gpulint.placement.sync_points import SyncKind, SyncPoint
from gpulint.placement.tensor_location import TensorLocations
from gpulint.project import Project
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import BindingKind, ModuleIndex


def read_before_move(project: Project, module: ModuleIndex, sync: SyncPoint) -> str:
    """Return what to do about a read of ``rewards.tolist()`` after ``rewards = rewards.to(device)``; empty if what is
    read was not in host memory before."""
    name = _root(sync.value) if sync.kind is SyncKind.READ and sync.value is not None else None
    move = _move_of(project, module, name) if name is not None else None
    if move is None:
        return ""
    on_host = any(
        fact.holds(module, move.value) if isinstance(fact, HostValues) else fact.is_host(module, move.value)
        for fact in (project.fact(TensorLocations), project.fact(HostValues))
    )
    line = module.syntax.span(move.node).line
    return f"read it before it is moved to the GPU in line {line}: it is in host memory until then" if on_host else ""


def _root(value: ast.expr) -> ast.Name | None:
    """``rewards`` of ``rewards.mean()`` and ``rewards[0]``, of which nothing else is computed."""
    while True:
        match value:
            case ast.Name():
                return value
            case ast.Call(func=ast.Attribute(value=inner), args=args) if all(isinstance(a, ast.Constant) for a in args):
                value = inner
            case ast.Attribute(value=inner) | ast.Subscript(value=inner):
                value = inner
            case _:
                return None


def _move_of(project: Project, module: ModuleIndex, name: ast.Name) -> Transfer | None:
    """The transfer to the GPU that alone makes what a variable stands for."""
    bindings = reaching(module, module.scope(name).lookup(name.id), name)
    if len(bindings) != 1 or bindings[0].kind is not BindingKind.ASSIGN or bindings[0].path:
        return None
    made = bindings[0].value
    move = project.fact(DeviceTransfers).transfer_at(module, made) if isinstance(made, ast.Call) else None
    return move if move is not None and move.to_gpu else None
