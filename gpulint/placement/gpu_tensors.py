"""Functions that make tensors on a GPU, by the devices that they and their helpers name."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.call_syntax import default_of
from gpulint.libraries.gpu_libraries import Libraries
from gpulint.placement.devices import Device, Devices
from gpulint.query import query
from gpulint.semantic.argument_binding import argument_of, parameters
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import FUNCTIONS, FunctionNode, ModuleIndex, NodeRef

if TYPE_CHECKING:
    from gpulint.project import Project

_ON_GPU = frozenset({Device.CUDA, Device.XPU})
_ON_GPU_BY_COMMENT = regex.compile(r"\b(gpu|cuda|nvjpeg|nvdec|hbm)\b", re.IGNORECASE)
_NOT_THERE = regex.compile(
    r"\b(cpu|host|no|not|never|without|before|later|until|faster|pin\w*|transfers?|copy|copies|moved?|sends?)\b|n't\b",
    re.IGNORECASE,
)
"""Words of comments on what happens to samples that are on the host."""
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
        if _goes_to_cuda(inner):
            return True
        for device in _devices_named(inner):
            where = NodeRef(module, device)
            if call is not None and isinstance(device, ast.Name) and device.id in parameters(function):
                assert isinstance(call.node, ast.Call)
                if (handed := argument_of(function, call.node, device.id)) is not None:
                    where = NodeRef(call.module, handed)
                elif (default := default_of(function.args, device.id)) is not None:
                    where = NodeRef(module, default)
                else:
                    continue  # other callers name one
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


def _goes_to_cuda(call: ast.Call) -> bool:
    """``torch.from_numpy(array).cuda()``; ``torch.cuda`` is a module."""
    match call.func:
        case ast.Attribute(value=ast.Name(id="torch"), attr="cuda"):
            return False
        case ast.Attribute(attr="cuda"):
            return True
    return False


@query
def _is_handed_device(module: ModuleIndex, function: FunctionNode) -> bool:
    """Return whether a parameter of a function may be the place of a tensor."""
    devices = (device for call in module.calls_of(function) for device in _devices_named(call))
    return any(isinstance(device, ast.Name) and device.id in parameters(function) for device in devices)


def _devices_named(call: ast.Call) -> Iterator[ast.expr]:
    """``device=d`` of any call, ``map_location=d``, and the first argument of ``x.to(d)``."""
    yield from (keyword.value for keyword in call.keywords if keyword.arg in ("device", "map_location"))
    if isinstance(call.func, ast.Attribute) and call.func.attr == "to":
        yield from call.args[:1]


@query
def decodes_on_gpu(project: Project, module: ModuleIndex, function: FunctionNode) -> bool:
    """Return whether a function calls one of an unknown library, perhaps a compiled one, of which a comment beside the
    call says that it uses the GPU: ``patches = decoder.decode(paths)  # on the GPU, by nvJPEG``."""
    return any(
        _ON_GPU_BY_COMMENT.search(text) and not _NOT_THERE.search(text)
        for call in module.calls_of(function)
        if _is_unknown(project, module, call)
        for text in _comments_beside(module, call)
    )


def _is_unknown(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call is of a function from outside of the tree, and of no library that computes on the host
    unless it is told otherwise."""
    resolver = project.fact(Resolver)
    roots = {name.split(".", 1)[0] for name in resolver.call_names(module, call) if "." in name}
    libraries = project.models.derived(Libraries)
    on_host = libraries.no_gpu | libraries.if_moved | sys.stdlib_module_names
    return bool(roots) and roots.isdisjoint(on_host) and not resolver.callees(module, call)


def _comments_beside(module: ModuleIndex, call: ast.Call) -> Iterator[str]:
    """The comments in the lines of a call, and in the line above its statement."""
    lines = module.syntax.source.line
    first = next((up.lineno for up in module.syntax.ancestors(call) if isinstance(up, ast.stmt)), call.lineno)
    yield from (lines(number).partition("#")[2] for number in range(first, (call.end_lineno or first) + 1))
    if first > 1 and (above := lines(first - 1).strip()).startswith("#"):
        yield above
