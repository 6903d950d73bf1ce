"""Whether the samples of a loader are in host memory: pinning others, or making them in workers, raises an error."""

from __future__ import annotations

import ast
import enum
import re

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.libraries.dataset_classes import library_data_set
from gpulint.placement.batch_flow import BatchFlow
from gpulint.placement.device_transfers import DeviceTransfers
from gpulint.placement.host_to_device import HostToDevice
from gpulint.placement.repeated_devices import repeats_device
from gpulint.placement.tensor_location import TensorLocations
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.training.loader_calls import Loader, loader_argument
from gpulint.workload.default_tensors import defaults_to_gpu
from gpulint.workload.gpu_samples import gets_device, gets_model, moves_to_device, uses_device
from gpulint.workspace.module_index import (
    FUNCTIONS,
    Binding,
    BindingKind,
    FunctionNode,
    ModuleIndex,
    NodeRef,
    last_name,
)
from gpulint_fixers.loading.collected_samples import collects_moved

_PARTS = frozenset({"Subset", "random_split", "ConcatDataset", "deepcopy", "Dataset"})
"""Data sets of samples of others."""
_METHODS = frozenset(
    {"map", "filter", "select", "shuffle", "with_format", "with_transform", "remove_columns", "rename_column"}
)
"""Methods of data sets that give another one."""
_LIBRARIES = frozenset(
    "torchvision torchaudio torchtext datasets wilds medmnist monai timm numpy sklearn PIL ogb".split()
)
"""Libraries whose data sets are in host memory."""
_MOST = 6
_STEPS = 3
"""Assignments back from a tensor, over which a device may be named."""
_PLACES = regex.compile(r"(^|_)(device|cuda|gpu|(on|to|in)_(cpu|gpu|cuda))s?($|_)", re.IGNORECASE)


class Samples(enum.Enum):
    """Where the samples of a data set are."""

    HOST = enum.auto()
    UNKNOWN = enum.auto()
    MAYBE_GPU = enum.auto()
    """What makes the data set or its batches gets a device or a model."""
    SHARED = enum.auto()
    """Batches hold an object of the data set itself, which a graph's ``to`` moves to the GPU for good."""

    @property
    def risk(self) -> str:
        """Why the samples may be on the GPU; empty where nothing says so."""
        return _RISKS.get(self, "")


_RISKS = {
    Samples.MAYBE_GPU: "a device or model is passed to what makes the samples, which may be on the GPU already",
    Samples.SHARED: "its batches hold an object of the data set itself, which may have been moved to the GPU in place",
}


def samples_of(project: Project, loader: Loader) -> Samples:
    """Return where the samples are, by what makes the data set; on the host where a framework makes it."""
    if defaults_to_gpu(project, loader.module, True):
        return Samples.MAYBE_GPU
    sources = project.fact(HostToDevice).sources(loader)
    if any(collects_moved(source.module, source.node) for source in sources):
        return Samples.MAYBE_GPU
    found = [_of(project, source.module, source.node, 0) for source in sources]
    found += [_collated(project, loader, ref) for ref in _collates(project, loader)]
    if any(_moves(project, ref.module, ref.node, _STEPS) for ref in _collating(project, loader)):
        return Samples.MAYBE_GPU
    owned = any(_comes_from_device(project, source, _MOST) for source in sources)
    if owned and not _are_moved_where_drawn(project, loader):
        return Samples.MAYBE_GPU
    return max(found, key=lambda one: one.value, default=Samples.HOST)


def _comes_from_device(project: Project, source: NodeRef, steps: int) -> bool:
    """Return whether a data set is an attribute, or comes of a method, of an object that was made with a device:
    ``train_set, val_set = data.initialize(n).split()`` with ``data = Lattices(device=device)``."""
    if not steps:
        return False
    for ref in project.fact(Resolver).points_to(source.module, source.node):
        match ref.node:
            case ast.Call(func=ast.Attribute(value=owner)) | ast.Attribute(value=owner):
                found = _of(project, ref.module, owner, 0) is Samples.MAYBE_GPU
                if found or _comes_from_device(project, NodeRef(ref.module, owner), steps - 1):
                    return True
            case ast.Call(func=ast.Name(), args=[first, *_]) if last_name(ref.node.func) in _PARTS:
                if _comes_from_device(project, NodeRef(ref.module, first), steps - 1):
                    return True
    return False


def _are_moved_where_drawn(project: Project, loader: Loader) -> bool:
    """Return whether a function that draws from a loader moves what it draws, so that it comes from the host."""
    reads = [read.where for read in project.fact(BatchFlow).of_loader(loader.module, loader.node)]
    functions = [at.module.function(at.node) or at.module.syntax.tree for at in reads]
    return any(
        (move.module.function(move.node) or move.module.syntax.tree) in functions
        for move in project.fact(DeviceTransfers).transfers_of(loader)
    )


def _collates(project: Project, loader: Loader) -> list[NodeRef]:
    """The functions that may make the loader's batches."""
    origins = project.fact(Resolver).points_to
    given = loader_argument(project, loader, "collate_fn").refs
    return [made for ref in given for made in origins(ref.module, ref.node) if isinstance(made.node, FUNCTIONS)]


def _collating(project: Project, loader: Loader) -> list[NodeRef]:
    """The functions that may make a loader's batches, also through ``partial``, and the classes of objects that do."""
    resolver, found = project.fact(Resolver), list[NodeRef]()
    for ref in loader_argument(project, loader, "collate_fn").refs:
        for made in resolver.points_to(ref.module, ref.node):
            if not isinstance(made.node, ast.Call):
                found.append(made)
            elif last_name(made.node.func) == "partial" and made.node.args:
                found += resolver.points_to(made.module, made.node.args[0])
            else:
                found += [NodeRef(*owner) for owner in resolver.classes_of(made.module, made.node)]
    return found


@query
def _moves(project: Project, module: ModuleIndex, node: ast.AST, depth: int) -> bool:
    """Return whether a function, or a class or one that it inherits from, moves anything to a device, by itself or in
    functions of the tree that it calls."""
    resolver = project.fact(Resolver)
    if isinstance(node, ast.ClassDef):
        bases = (owner for base in node.bases for owner in resolver.points_to(module, base)) if depth else ()
        if uses_device(module, node) or any(
            isinstance(one.node, ast.ClassDef) and _moves(project, one.module, one.node, depth - 1) for one in bases
        ):
            return True
    elif not isinstance(node, (*FUNCTIONS, ast.Lambda)):
        return False
    for call in (part for part in walk(node) if isinstance(part, ast.Call)):
        inside = module.function(call)
        if inside is not None and moves_to_device(inside, call):
            return True
        if depth and any(
            isinstance(one.node, ast.FunctionDef) and _moves(project, one.module, one.node, depth - 1)
            for one in resolver.callees(module, call)
        ):
            return True
    return False


def _collated(project: Project, loader: Loader, collate: NodeRef) -> Samples:
    """Return where a collate function puts the batches: on the host if it does not say."""
    function = collate.node
    assert isinstance(function, FUNCTIONS)
    if any(_is_item(collate.module, part) for part in _returned(project, function)) and _shares(project, loader):
        return Samples.SHARED
    for part in walk(function):
        if not isinstance(part, ast.keyword) or part.arg != "device" or repeats_device(function, part.value):
            continue
        if getattr(part.value, "value", None) != "cpu":
            return Samples.MAYBE_GPU
    return Samples.HOST


def _returned(project: Project, function: FunctionNode) -> list[ast.expr]:
    """Return what a function returns, or the parts of a tuple, list or dict that it returns."""
    found = list[ast.expr]()
    for value in project.fact(Resolver).returns(function):
        match value:
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts):
                found += parts
            case _:
                found.append(value)
    return found


def _is_item(module: ModuleIndex, value: ast.expr) -> bool:
    """``batch[0][0]``, also through a variable"""
    if isinstance(value, ast.Name):
        bound = module.scope(value).lookup(value.id)
        return any(isinstance(one.value, ast.Subscript) and _is_item(module, one.value) for one in bound)
    while isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant):
        value = value.value
        if isinstance(value, ast.Name) and any(one.kind is BindingKind.PARAMETER for one in _bound(module, value)):
            return True
    return False


def _shares(project: Project, loader: Loader) -> bool:
    """Return whether each sample of the data set holds the same attribute of it (``return self.data, index``)."""
    resolver = project.fact(Resolver)
    for source in project.fact(HostToDevice).sources(loader):
        assert isinstance(source.node, ast.expr)
        for where, owner in resolver.classes_of(source.module, source.node):
            getter = resolver.method(where, owner, "__getitem__")
            if getter is not None and isinstance(getter.node, FUNCTIONS):
                handed = _returned(project, getter.node)
                if any(isinstance(part, ast.Attribute) and ast.unparse(part.value) == "self" for part in handed):
                    return True
    return False


def _bound(module: ModuleIndex, name: ast.Name) -> list[Binding]:
    return module.scope(name).lookup(name.id)


def _of(project: Project, module: ModuleIndex, node: ast.AST, depth: int) -> Samples:
    if not isinstance(node, ast.expr) or depth > _MOST:
        return Samples.UNKNOWN
    found = [_made(project, ref, depth) for ref in project.fact(Resolver).points_to(module, node)]
    return max(found, key=lambda one: one.value, default=Samples.UNKNOWN)


def _made(project: Project, ref: NodeRef, depth: int) -> Samples:
    resolver, node = project.fact(Resolver), ref.node
    match node:
        case ast.Call():
            pass
        case ast.Subscript(value=inner):
            return _of(project, ref.module, inner, depth + 1)
        case ast.List() | ast.ListComp() | ast.Constant() | ast.Dict():
            return Samples.HOST
        case _:
            return Samples.UNKNOWN
    name = last_name(node.func)
    if _is_host(project, ref.module, node):
        return Samples.HOST
    if name == "TensorDataset":
        hosts = all(_is_host(project, ref.module, argument) for argument in node.args)
        if hosts:
            return Samples.HOST
        named = any(_names_device(ref.module, argument, _STEPS) for argument in node.args)
        return Samples.MAYBE_GPU if named else Samples.UNKNOWN
    if name in _PARTS and node.args:
        return _of(project, ref.module, node.args[0], depth + 1)
    if name in _METHODS and isinstance(node.func, ast.Attribute):
        return _of(project, ref.module, node.func.value, depth + 1)
    names = resolver.call_names(ref.module, node)
    if any(full.partition(".")[0] in _LIBRARIES for full in names) and not gets_device(node):
        return Samples.HOST
    if any(library_data_set(project.models, full) is not None for full in names):
        return Samples.HOST
    classes = resolver.classes_of(ref.module, node)
    if classes:
        uses = any(_moves(project, where, owner, _STEPS) for where, owner in classes)
        named = gets_device(node) or gets_model(node)
        return (Samples.MAYBE_GPU if named else Samples.UNKNOWN) if uses else Samples.HOST
    return Samples.MAYBE_GPU if gets_device(node) else Samples.UNKNOWN


def _is_host(project: Project, module: ModuleIndex, node: ast.expr, depth: int = 0) -> bool:
    """Return whether a tensor is certainly not on a GPU: all that it is computed from is made on the host."""
    if depth > _MOST:
        return False
    if project.fact(TensorLocations).is_host(module, node):
        return True
    parts = list[ast.expr]()
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr not in ("to", "cuda") and not gets_device(
            node
        ):
            parts = [value] if not isinstance(value, ast.Name) or module.scope(value).lookup(value.id) else []
        case ast.BinOp(left=left, right=right):
            parts = [left, right]
        case ast.Compare(left=left, comparators=others):
            parts = [left, *others]
        case ast.Subscript(value=value) | ast.UnaryOp(operand=value):
            parts = [value]
        case ast.Name(id=name):
            bound = reaching(module, module.scope(node).lookup(name), node)
            parts = [b.value for b in bound if b.kind is BindingKind.ASSIGN and b.value is not None and not b.path]
            if len(parts) != len(bound):
                return False
    return bool(parts) and all(
        isinstance(part, ast.Constant) or _is_host(project, module, part, depth + 1) for part in parts
    )


def _names_device(module: ModuleIndex, node: ast.expr, depth: int) -> bool:
    """Return whether what an expression is computed of names a device: ``extract(model, gather_on_cpu=on_cpu)``."""
    for part in walk(node):
        if isinstance(part, ast.keyword) and part.arg is not None and _PLACES.search(part.arg):
            return True
        if not isinstance(part, ast.Name):
            continue
        if _PLACES.search(part.id):
            return True
        bound = reaching(module, module.scope(part).lookup(part.id), part) if depth else ()
        if any(one.value is not None and _names_device(module, one.value, depth - 1) for one in bound):
            return True
    return False
