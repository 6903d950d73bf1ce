"""Data sets that keep what their samples are made of on the GPU from the start."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.placement.device_transfers import DeviceTransfers
from gpulint.placement.devices import Device, Devices
from gpulint.placement.listed_on_gpu import lists_gpu_items
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.properties import properties
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import (
    FUNCTIONS,
    Binding,
    BindingKind,
    FunctionNode,
    ModuleIndex,
    NodeRef,
    last_name,
    source_text,
)

if TYPE_CHECKING:
    from gpulint.project import Project

_ON_GPU = frozenset({Device.CUDA, Device.XPU})
_DEFAULTS = ("set_default_device", "set_default_tensor_type")
_HOLDS = frozenset({"dict", "zip", "list", "tuple", "stack", "cat"})
"""Functions whose result is, or holds, what they are given."""
_STAYS = frozenset(
    "detach float half double long int bool squeeze unsqueeze reshape view flatten permute transpose contiguous clone "
    "expand repeat type div sub add mul chunk split masked_select index_select t".split()
)
"""Methods of tensors whose result is on the same device."""
_NAMES = (ast.Name, ast.Attribute)
_ADDS = frozenset({"append", "extend", "update"})
MAX_STEPS = 20
"""Most expressions that are looked at to find out where one attribute is."""


@query
def keeps_on_gpu(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> bool:
    """Return whether ``__getitem__`` of a data set looks samples up in an attribute that holds tensors on the GPU
    (``torch.load(path, map_location=device)``), or in a property that puts them there when it is first read."""
    getter = project.fact(Resolver).method(module, owner, "__getitem__")
    if getter is None:
        return False
    if any(
        places_on_gpu(project, read.module, call)
        for read in properties(project, getter)
        if isinstance(read.node, FUNCTIONS)
        for call in read.module.calls_of(read.node)
    ):
        return True
    names = {name for part in walk(getter.node) if (name := _looked_up(part))}
    return any(is_on_gpu(project, value) for name in sorted(names) for value in _values(project, module, owner, name))


def sets_default_device(project: Project, module: ModuleIndex) -> bool:
    """Return whether the module, or one that imports it, makes all tensors on the GPU
    (``torch.set_default_device("cuda")``)."""
    users = (project.module_at(path) for path in project.fact(GpuPrograms).users(module.path))
    return any(name in user.calls_by_name for user in (module, *users) if user is not None for name in _DEFAULTS)


def getters(project: Project, module: ModuleIndex, owner: ast.ClassDef) -> Iterator[tuple[ModuleIndex, FunctionNode]]:
    """Yield ``__getitem__`` of a data set, and the methods of its own that it calls in a base class
    (``self.load(path)``)."""
    resolver = project.fact(Resolver)
    getter = resolver.method(module, owner, "__getitem__")
    if getter is None or not isinstance(getter.node, FUNCTIONS):
        return
    yield getter.module, getter.node
    for call in getter.module.calls_of(getter.node):
        match call.func:
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                method = resolver.method(module, owner, name)
                if method is not None and isinstance(method.node, FUNCTIONS):
                    yield method.module, method.node


def is_moved(project: Project, module: ModuleIndex, source: ast.expr) -> bool:
    """Return whether a data set is moved as a whole (``TUDataset(root, name).to(device)``), or what it keeps is, by
    the function that hands it to a loader (``dataset.data = dataset.data.to(device)``), or each sample of a list."""
    transfers = project.fact(DeviceTransfers)
    made: list[ast.expr | None] = [source]
    if isinstance(source, ast.Name):
        made += [one.value for one in reaching(module, module.scope(source).lookup(source.id), source) if not one.path]
    for call in made:
        moved = transfers.transfer_at(module, call) if isinstance(call, ast.Call) else None
        if moved is not None and moved.to_gpu:
            return True
    name, function = source_text(module, source), module.function(source)
    return lists_gpu_items(project, NodeRef(module, source)) or any(
        move.to_gpu
        and move.node.lineno < source.lineno
        and module.function(move.node) is function
        and isinstance(statement := module.syntax.parents.get(move.node), ast.Assign)
        and isinstance(target := statement.targets[0], ast.Attribute)
        and source_text(module, target.value) == name
        for move in transfers.transfers(module)
    )


def _looked_up(part: ast.AST) -> str:
    """``images`` of ``self.images[index]`` and of ``self.images.items()``"""
    match part:
        case (
            ast.Subscript(ctx=ast.Load(), value=ast.Attribute(value=ast.Name(id="self"), attr=name))
            | ast.Call(
                func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="self"), attr=name), attr="items" | "values")
            )
        ):
            return name
    return ""


def _values(project: Project, module: ModuleIndex, owner: ast.ClassDef, name: str) -> Iterator[NodeRef]:
    """Yield what an attribute is set to, and what is added to it."""
    resolver = project.fact(Resolver)
    for where, binding in resolver.class_attribute(module, owner, name):
        match binding.value:
            case ast.Tuple(elts=elements) if len(binding.path) == 1 and binding.path[0] < len(elements):
                yield NodeRef(where, elements[binding.path[0]])
            case ast.expr() if binding.kind is BindingKind.ASSIGN and not binding.path:
                yield NodeRef(where, binding.value)
    for where, base in resolver.mro(module, owner):
        for part in (part for method in base.body if isinstance(method, FUNCTIONS) for part in walk(method)):
            match part:
                case ast.Call(func=ast.Attribute(value=ast.Attribute(attr=held), attr=adds), args=[value]):
                    if held == name and adds in _ADDS:
                        yield NodeRef(where, value)
                case ast.Assign(targets=[ast.Subscript(value=ast.Attribute(attr=held))], value=value):
                    if held == name:
                        yield NodeRef(where, value)
                case ast.Call(func=ast.Name(id="setattr"), args=[ast.Name(id="self"), held, value]):
                    if not isinstance(held, ast.Constant) or held.value == name:
                        yield NodeRef(where, value)


def is_on_gpu(project: Project, value: NodeRef, *, passed: bool = False) -> bool:
    """Return whether a value may be on a GPU, or holds what is: made there, or computed of what was moved there. A
    parameter may be what any call passes if that is asked for by ``passed``."""
    todo, seen = [value], set[ast.AST]()
    while todo and len(seen) < MAX_STEPS:
        where = todo.pop()
        if where.node in seen:
            continue
        seen.add(where.node)
        if isinstance(where.node, ast.Call) and (
            places_on_gpu(project, where.module, where.node) or _is_given_device(project, where.module, where.node)
        ):
            return True
        todo += _made_of(where.module, where.node)
        if passed and isinstance(where.node, ast.Name) and _is_parameter(where.module, where.node):
            todo += project.fact(Resolver).points_to(where.module, where.node)
    return False


def _is_parameter(module: ModuleIndex, name: ast.Name) -> bool:
    bound = reaching(module, module.scope(name).lookup(name.id), name)
    return any(one.kind is BindingKind.PARAMETER for one in bound)


def _made_of(module: ModuleIndex, node: ast.AST) -> list[NodeRef]:
    """Return the values that one is on the same device as, or holds."""
    inner: list[ast.expr] = []
    match node:
        case ast.Call(func=func, args=args) if last_name(func) in _HOLDS:
            inner = list(args)
        case ast.Call(func=ast.Attribute(value=held, attr=attr)) if attr in _STAYS:
            inner = [held]
        case ast.Subscript(value=held) | ast.Attribute(value=held) if not isinstance(held, ast.Attribute):
            inner = [held]
        case ast.BinOp(left=left, right=right):
            inner = [left, right]
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            inner = elements
        case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element) | ast.DictComp(value=element):
            inner = [element]
        case ast.Dict(values=values):
            inner = values
        case ast.Name(id=name):
            bound = reaching(module, module.scope(node).lookup(name), node)
            inner = [value for one in bound if (value := _assigned(one)) is not None]
    return [NodeRef(module, part) for part in inner]


def _assigned(binding: Binding) -> ast.expr | None:
    """Return what a variable is assigned, also as one of several (``x, y = x.to(device), y.to(device)``)."""
    if binding.kind is not BindingKind.ASSIGN:
        return None
    match binding.value:
        case ast.Tuple(elts=elements) if len(binding.path) == 1 and binding.path[0] < len(elements):
            return elements[binding.path[0]]
    return binding.value if not binding.path else None


def places_on_gpu(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """``torch.load(path, map_location="cuda")``, ``x.to(device)``, ``torch.zeros(4, device=device)``"""
    name = last_name(call.func)
    if name == "cuda" and isinstance(call.func, ast.Attribute):
        return not isinstance(call.func.value, ast.Name) or call.func.value.id != "torch"
    named = [keyword.value for keyword in call.keywords if keyword.arg in ("device", "map_location")]
    if name == "to" and isinstance(call.func, ast.Attribute):
        named += call.args[:1]
    return any(_may_be_gpu(project, module, device) for device in named)


def _is_given_device(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """``move(samples, device)`` with a function of the tree that moves them"""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    if not any(_may_be_gpu(project, module, value) for value in given if isinstance(value, _NAMES)):
        return False
    return any(
        isinstance(part, ast.Call) and last_name(part.func) in ("to", "cuda")
        for function in project.fact(Resolver).callees(module, call)
        for part in walk(function.node)
    )


def _may_be_gpu(project: Project, module: ModuleIndex, device: ast.expr) -> bool:
    """Return whether a device is a GPU, or a setting of which nothing says what it is: ``cfg.device``."""
    known = project.fact(Devices).of(module, device)
    is_setting = isinstance(device, ast.Attribute | ast.Subscript | ast.Name) and "device" in ast.unparse(device)
    return bool(known & _ON_GPU) or (is_setting and known <= {Device.UNKNOWN})
