"""Helpers that only put their arguments into another container (``{"x": batch[0], "y": batch[1]}``), and methods that
give a tensor another shape."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.semantic.argument_binding import argument_of
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import FUNCTIONS, BindingKind, FunctionNode, ModuleIndex

if TYPE_CHECKING:
    from gpulint.project import Project

MAX_NODES = 120
"""A longer body does more than rearrange."""
MAX_DEPTH = 6
_WORKS = (*FUNCTIONS, ast.For, ast.While, ast.With, ast.Lambda, ast.AugAssign)
_CHEAP = frozenset({"isinstance", "len", "type", "dict", "tuple", "list", "ValueError", "TypeError", "hasattr"})
_SHAPES = frozenset(
    (
        "unsqueeze squeeze expand expand_as view reshape repeat flatten t transpose permute contiguous float long int "
        "half double bool"
    ).split()
)


def made_by(tensor: ast.expr) -> ast.expr:
    """``torch.arange(n)`` of ``torch.arange(n).unsqueeze(0).float()``."""
    while isinstance(tensor, ast.Call) and isinstance(tensor.func, ast.Attribute) and tensor.func.attr in _SHAPES:
        tensor = tensor.func.value
    return tensor


def rearranged(project: Project, module: ModuleIndex, call: ast.Call) -> Iterator[ast.expr]:
    """The arguments of ``call`` that come back in a tuple, list or dictionary, or as they are. None for methods, and
    for functions that call anything of note: what they return may live on another device."""
    for callee in project.fact(Resolver).callees(module, call):
        function = callee.node
        if not isinstance(function, FUNCTIONS) or isinstance(callee.module.syntax.parents.get(function), ast.ClassDef):
            continue
        if not _only_rearranges(function):
            continue
        names = dict.fromkeys(
            name
            for value in project.fact(Resolver).returns(function)
            for name in _parameters(callee.module, value, MAX_DEPTH)
        )
        for name in names:
            passed = argument_of(function, call, name)
            if passed is not None and not isinstance(passed, ast.Starred):
                yield passed


def _only_rearranges(function: FunctionNode) -> bool:
    inside = [node for statement in function.body for node in walk(statement)]
    return len(inside) <= MAX_NODES and not any(
        isinstance(node, _WORKS)
        or (isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id in _CHEAP))
        for node in inside
    )


def _parameters(module: ModuleIndex, node: ast.expr | None, depth: int) -> Iterator[str]:
    """Parameters that an expression is, or holds as they are."""
    if node is None or depth == 0:
        return
    match node:
        case ast.Name(id=name):
            for binding in reaching(module, module.scope(node).lookup(name), node):
                if binding.kind is BindingKind.PARAMETER:
                    yield name
                elif binding.kind is BindingKind.ASSIGN and binding.value is not node:
                    yield from _parameters(module, binding.value, depth - 1)
        case ast.Subscript(value=base) | ast.Attribute(value=base) | ast.Starred(value=base):
            yield from _parameters(module, base, depth - 1)
        case ast.Dict(values=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts):
            for part in parts:
                yield from _parameters(module, part, depth - 1)
        case ast.IfExp(body=body, orelse=orelse):
            yield from _parameters(module, body, depth - 1)
            yield from _parameters(module, orelse, depth - 1)
