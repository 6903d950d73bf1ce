"""Functions that return nothing but tensors of integers, such as the indices of neighbours: no graph leads through
them, whatever they compute."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.workspace.module_index import FUNCTIONS, BindingKind, FunctionNode, ModuleIndex, last_name

_MAKE = frozenset(
    "argmax argmin argsort nonzero multinomial randint randperm searchsorted bucketize LongTensor IntTensor long int"
    " knn_graph radius_graph furthest_point_sample farthest_point_sample bincount".split()
)
"""Calls that make tensors of integers."""
_TYPED = frozenset({"zeros", "ones", "full", "empty", "arange", "tensor", "as_tensor", "to", "type", "linspace"})
"""Calls that make them if they are told to."""
_TYPES = frozenset({"long", "int", "int64", "int32", "int16", "int8", "uint8", "LongTensor", "IntTensor"})
_PICK = frozenset({"topk", "sort", "max", "min", "kthvalue", "median"})
"""Calls that return values and their indices."""
MAX_NAMES = 4
"""How many variables are followed from one to the next."""
_KEEP = frozenset(
    "to cuda cpu view reshape repeat expand clone contiguous permute transpose squeeze unsqueeze flatten sort"
    " detach t".split()
)
"""Methods that return a tensor of the same type, unless they are told another one."""


@query
def gives_integers(module: ModuleIndex, function: FunctionNode) -> bool:
    """Return whether a function returns only tensors of integers, and keeps no others in attributes."""
    returned = list[ast.expr]()
    for part in walk(function):
        if part is not function and isinstance(part, (*FUNCTIONS, ast.Lambda, ast.Yield, ast.YieldFrom)):
            return False
        if isinstance(part, ast.Attribute) and not isinstance(part.ctx, ast.Load):
            return False
        if isinstance(part, ast.Return):
            returned.append(part.value if part.value is not None else ast.Constant(value=None))
    return bool(returned) and all(is_integer(module, value) for value in returned)


def is_integer(module: ModuleIndex, value: ast.expr) -> bool:
    """Return whether a value is a tensor of integers, as the calls that make it tell."""
    return _is_integer(module, value, frozenset())


def _is_integer(module: ModuleIndex, value: ast.expr, seen: frozenset[str]) -> bool:
    match value:
        case ast.Name(id=name):
            return name in seen or (len(seen) < MAX_NAMES and _is_integer_name(module, value, seen | {name}))
        case ast.Subscript(value=ast.Call(func=func), slice=ast.Constant(value=1)) if last_name(func) in _PICK:
            return True
        case ast.Subscript(value=inner):
            return _is_integer(module, inner, seen)
        case ast.Attribute(value=ast.Call(func=func), attr="indices"):
            return last_name(func) in _PICK
        case ast.Call(func=func) if last_name(func) in _MAKE:
            return True
        case ast.Call(func=func) if last_name(func) in _TYPED and _type(value):
            return last_name(_type(value) or func) in _TYPES
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in _KEEP:
            return _is_integer(module, inner, seen)
    return False


def _is_integer_name(module: ModuleIndex, name: ast.Name, seen: frozenset[str]) -> bool:
    """``centroids = torch.zeros(B, npoint, dtype=torch.long).to(device)``, ``_, index = distances.topk(k)``"""
    bindings = module.scope(name).lookup(name.id)
    return bool(bindings) and all(
        binding.kind is BindingKind.ASSIGN
        and binding.value is not None
        and (
            _is_integer(module, binding.value, seen)
            if not binding.path
            else binding.path == (1,) and isinstance(binding.value, ast.Call) and last_name(binding.value.func) in _PICK
        )
        for binding in bindings
    )


def _type(call: ast.Call) -> ast.expr | None:
    """The type that a call is told: by name, or as its only argument where that may be one."""
    named = next((keyword.value for keyword in call.keywords if keyword.arg == "dtype"), None)
    if named is None and last_name(call.func) in ("to", "type") and len(call.args) == 1:
        named = call.args[0] if last_name(call.args[0]) in _TYPES else None
    return named
