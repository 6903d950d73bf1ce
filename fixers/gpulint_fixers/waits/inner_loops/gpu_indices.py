"""Elements of tensors on the GPU that index another tensor: a copy of that one on the host has to wait for each."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.placement.host_values import HostValues
from gpulint.placement.subscript_indices import index_names, loops_around
from gpulint.placement.tensor_location import TensorLocations
from gpulint.project import Project
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import Binding, BindingKind, ModuleIndex
from gpulint_fixers.waits.device_reads import is_torch_tensor

_MOST_NAMES = 3
"""Names that an index is followed through."""
_FINDS = frozenset({"nonzero", "argwhere", "where", "topk", "argsort"})
"""Functions and methods that give indices where their tensor is."""
_ONLY_TORCH = frozenset({"topk"})
_COPIES = frozenset({"cpu", "numpy", "tolist", "item"})


def has_gpu_index(project: Project, module: ModuleIndex, loop: ast.AST, name: str) -> bool:
    """Return whether a loop indexes a tensor by what may be elements of another one: ``scores[labels[i]]``."""
    return any(
        isinstance(part, ast.Subscript)
        and isinstance(part.value, ast.Name)
        and part.value.id == name
        and any(_is_on_gpu(project, module, one) for one in _parts(part.slice))
        for part in walk(loop)
    )


def gpu_index(project: Project, module: ModuleIndex, read: ast.AST) -> ast.Subscript | None:
    """Return the part of what is read that is indexed by what may be an element of a tensor on the GPU, which the host
    has to wait for before it can read anything: ``rewards[index]`` of ``for index in done.nonzero().flatten()``."""
    for part in walk(read):
        if isinstance(part, ast.Subscript):
            names = index_names(module, part, loops_around(module, part))  # no keys of a table of tensors
            indices = (one for one in _parts(part.slice) if not isinstance(one, ast.Name) or one.id in names)
            if any(_is_on_gpu(project, module, one) for one in indices):
                return part
    return None


def _parts(index: ast.expr) -> list[ast.expr]:
    """Return what an index is computed of."""
    match index:
        case ast.Tuple(elts=parts):
            return [one for part in parts for one in _parts(part)]
        case ast.Slice(lower=lower, upper=upper, step=step):
            return [one for part in (lower, upper, step) if part is not None for one in _parts(part)]
        case ast.BinOp(left=left, right=right):
            return [*_parts(left), *_parts(right)]
    return [index]


def _is_on_gpu(project: Project, module: ModuleIndex, index: ast.expr, depth: int = _MOST_NAMES) -> bool:
    """Return whether an index may be a tensor on the GPU: an element of one, by way of variables too."""
    match index:
        case ast.Name(id=name) if depth:
            bound = reaching(module, module.scope(index).lookup(name), index)
            return any(_binds_element(project, module, one, depth - 1) for one in bound)
        case ast.Subscript(value=inner):
            while isinstance(inner, ast.Subscript):
                inner = inner.value
            return _may_be_tensor(project, module, inner)
        case ast.Call(func=ast.Attribute(attr="argmax" | "argmin", value=owner)):
            return is_torch_tensor(project, module, index) or is_torch_tensor(project, module, owner)
    return False


def _binds_element(project: Project, module: ModuleIndex, bound: Binding, depth: int) -> bool:
    if bound.value is None:
        return False
    if bound.kind is BindingKind.ASSIGN and not bound.path:
        return _is_on_gpu(project, module, bound.value, depth)
    if bound.kind is not BindingKind.LOOP:
        return False
    match bound.value, bound.path:
        case ast.Call(func=ast.Name(id="enumerate"), args=[source, *_]), (1, *_):
            pass
        case ast.Call(func=ast.Name(id="zip"), args=sources), (at, *_) if at < len(sources):
            source = sources[at]
        case source, ():
            pass
        case _:
            return False
    if isinstance(source, ast.Name | ast.Attribute):
        return _may_be_tensor(project, module, source)
    return _finds_indices(source)


def _may_be_tensor(project: Project, module: ModuleIndex, value: ast.expr) -> bool:
    """Return whether a value that is indexed may be a tensor on the GPU: it is no text, list or array of the host as
    far as the code shows."""
    if is_torch_tensor(project, module, value):
        return True
    if not isinstance(value, ast.Name) or project.fact(HostValues).holds(module, value):
        return False
    if project.fact(TensorLocations).is_host(module, value):
        return False
    bound = reaching(module, module.scope(value).lookup(value.id), value)
    return bool(bound) and all(one.kind is BindingKind.PARAMETER or _gives_tensor(one) for one in bound)


def _gives_tensor(bound: Binding) -> bool:
    return _moves(bound) or (bound.value is not None and _finds_indices(bound.value))


def _finds_indices(value: ast.expr) -> bool:
    """Return whether PyTorch finds indices in a tensor, which stay where that is: ``done.nonzero().squeeze(-1)``,
    ``torch.where(done)[0]``. The ``nonzero()`` of NumPy gives a tuple, which has no methods of arrays."""
    has_method = False
    while True:
        match value:
            case ast.Call(func=ast.Attribute(attr=name)) if name in _COPIES:
                return False
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=name), args=args) if name in _FINDS:
                return name != "where" or len(args) == 1
            case ast.Call(func=ast.Attribute(attr=name), keywords=keywords) if name in _FINDS:
                told = any(keyword.arg == "as_tuple" for keyword in keywords)
                return told or name in _ONLY_TORCH or (name == "nonzero" and has_method)
            case ast.Call(func=ast.Attribute(value=inner)):
                value, has_method = inner, True
            case ast.Subscript(value=inner) | ast.Attribute(value=inner):
                value = inner
            case _:
                return False


def _moves(bound: Binding) -> bool:
    """``labels = labels.to(device)``"""
    match bound.value:
        case ast.Call(func=ast.Attribute(attr="to" | "cuda")):
            return True
    return False
