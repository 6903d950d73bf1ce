"""What callers give to functions that copy what they get to the GPU (``def to_gpu(value): return value.cuda()``)."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.placement.batch_flow import BatchFlow
from gpulint.placement.device_transfers import Transfer
from gpulint.project import Project
from gpulint.semantic.argument_binding import RECEIVERS, argument_of, parameters
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import FunctionNode, NodeRef

_MAKES_TENSORS = ("torch.", "numpy.")


def moved_parameter(function: FunctionNode, value: ast.expr) -> str | None:
    """Return the parameter of the function that a value is, or is taken out of."""
    names = parameters(function) - {*RECEIVERS}
    used = {part.id for part in walk(value) if isinstance(part, ast.Name)}
    drawn = (  # `[tensor.to(device) for tensor in batch]`
        loop.iter
        for loop in walk(function)
        if isinstance(loop, ast.For | ast.comprehension)
        and any(isinstance(part, ast.Name) and part.id in used for part in walk(loop.target))
    )
    places = (part for one in (value, *drawn) for part in walk(one))
    return next((part.id for part in places if isinstance(part, ast.Name) and part.id in names), None)


def may_get_modules(project: Project, transfer: Transfer) -> bool:
    """Return whether ``value.cuda()`` is of a parameter to which callers may also give a module, whose method of that
    name takes no ``non_blocking``."""
    call, module = transfer.node, transfer.call.module
    function = module.function(call)
    if function is None or not isinstance(call.func, ast.Attribute) or call.func.attr != "cuda":
        return False
    value = transfer.value.id if isinstance(transfer.value, ast.Name) else ""
    if value not in parameters(function) - {*RECEIVERS}:
        return False
    for site in project.fact(Resolver).call_sites(module, function):
        assert isinstance(site.node, ast.Call)
        moved = argument_of(function, site.node, value)
        if moved is None or isinstance(moved, ast.Starred) or site.module.function(site.node) is function:
            continue
        if project.fact(BatchFlow).batch_of(site.module, moved) is None and not _are_tensors(project, site, moved):
            return True
    return False


def _are_tensors(project: Project, site: NodeRef, moved: ast.expr) -> bool:
    """Return whether an argument may only be a literal, or what functions of libraries make: tensors and arrays."""
    resolver = project.fact(Resolver)
    made = resolver.points_to(site.module, moved)
    return bool(made) and all(
        isinstance(one.node, ast.Constant | ast.List | ast.Tuple | ast.Dict)
        or (
            isinstance(one.node, ast.Call)
            and bool(names := resolver.call_names(one.module, one.node))
            and all(name.startswith(_MAKES_TENSORS) and name.rpartition(".")[2].islower() for name in names)
        )
        for one in made
    )
