"""Functions that make tensors on a GPU, by the devices that they and their helpers name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.placement.devices import Device, Devices
from gpulint.query import query
from gpulint.semantic.argument_binding import argument_of, parameters
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import FUNCTIONS, FunctionNode, ModuleIndex, NodeRef

if TYPE_CHECKING:
    from gpulint.project import Project

_ON_GPU = frozenset({Device.CUDA, Device.XPU})
MAX_HELPERS = 2


@query
def makes_on_gpu(
    project: Project,
    module: ModuleIndex,
    function: FunctionNode,
    call: NodeRef | None = None,
    helpers: int = MAX_HELPERS,
) -> bool:
    """Return whether a function names a GPU as the place of a tensor. A parameter of a helper is what ``call`` hands to
    it."""
    calls = module.calls_of(function)
    for inner in calls:
        for device in _devices_named(inner):
            where = NodeRef(module, device)
            if call is not None and isinstance(device, ast.Name) and device.id in parameters(function):
                assert isinstance(call.node, ast.Call)
                handed = argument_of(function, call.node, device.id)
                if handed is None:
                    continue  # other callers name one
                where = NodeRef(call.module, handed)
            if project.fact(Devices).of(where.module, where.node) & _ON_GPU:
                return True
    return helpers > 0 and any(
        isinstance(helper.node, FUNCTIONS)
        and makes_on_gpu(
            project,
            helper.module,
            helper.node,
            NodeRef(module, inner) if _is_handed_device(helper.module, helper.node) else None,
            helpers - 1,
        )
        for inner in calls
        for helper in project.fact(Resolver).callees(module, inner)
    )


@query
def _is_handed_device(module: ModuleIndex, function: FunctionNode) -> bool:
    """Return whether a parameter of a function may be the place of a tensor."""
    devices = (device for call in module.calls_of(function) for device in _devices_named(call))
    return any(isinstance(device, ast.Name) and device.id in parameters(function) for device in devices)


def _devices_named(call: ast.Call) -> Iterator[ast.expr]:
    """``device=d`` of any call, and the first argument of ``x.to(d)``."""
    yield from (keyword.value for keyword in call.keywords if keyword.arg == "device")
    if isinstance(call.func, ast.Attribute) and call.func.attr == "to":
        yield from call.args[:1]
