"""Forward passes that certainly run on the CPU: they are given tensors that were made there or moved there last."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.placement.devices import Device, Devices
from gpulint.placement.tensor_location import TensorLocations
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import FUNCTIONS, BindingKind, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

MAX_STEPS = 8
"""Most assignments and methods between a forward pass and what made its input."""
_MOVES_INPUTS = regex.compile(
    r"device_map|dispatch_model|set_default_(device|tensor_type)|Accelerator|Fabric|deepspeed"
)
"""Words of what moves the inputs of a model to its GPUs, or makes tensors there."""
_SAME_PLACE = frozenset(
    "float double half long int bool view reshape squeeze unsqueeze permute transpose contiguous flatten repeat expand "
    "clone detach requires_grad_ type_as".split()
)
"""Methods of tensors whose result is where the tensor is."""


def runs_on_cpu(project: Project, module: ModuleIndex, forward: ast.Call) -> bool:
    """Return whether a model is given a tensor of the host, as it only can where its weights are there, too."""
    if _MOVES_INPUTS.search(module.syntax.source.text) or _wraps_before(module, forward):
        return False
    given = forward.args[0] if forward.args else None
    if given is None or not _is_of_host(project, module, given):
        return False
    return not any(_moves(callee) for callee in project.fact(Resolver).callees(module, forward))


def _is_of_host(project: Project, module: ModuleIndex, node: ast.expr, steps: int = MAX_STEPS) -> bool:
    """Return whether all that a value may be was made by PyTorch on no device that is named, or moved to the CPU."""
    match node:
        case ast.Call(func=ast.Attribute(value=base, attr=method)) if method in _SAME_PLACE:
            return steps > 0 and _is_of_host(project, module, base, steps - 1)
        case ast.Subscript(value=base):
            return steps > 0 and _is_of_host(project, module, base, steps - 1)
        case ast.Call(func=ast.Attribute(attr="to"), args=[device]):
            return project.fact(Devices).of(module, device) == {Device.CPU}
        case ast.Call():
            return project.fact(TensorLocations).is_made_on_host(module, node)
        case ast.Name(id=name):
            bindings = reaching(module, module.scope(node).lookup(name), node)
            return bool(bindings and steps) and all(
                one.kind is BindingKind.ASSIGN
                and one.value is not None
                and not one.path
                and _is_of_host(project, module, one.value, steps - 1)
                for one in bindings
            )
    return False


def _wraps_before(module: ModuleIndex, forward: ast.Call) -> bool:
    """Return whether a call above a forward pass, or in another function, wraps a model in ``DataParallel``."""
    function = module.function(forward)
    return any(
        module.function(call) is not function or call.lineno <= forward.lineno
        for name in ("DataParallel", "data_parallel")
        for call in module.calls_by_name.get(name, ())
    )


def _moves(function: NodeRef) -> bool:
    """Return whether a model's function moves anything, perhaps what it is given."""
    return not isinstance(function.node, FUNCTIONS) or any(
        isinstance(part, ast.Call) and last_name(part.func) in ("to", "cuda") for part in walk(function.node)
    )
