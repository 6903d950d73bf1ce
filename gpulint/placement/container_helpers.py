"""Helpers that only put their arguments into another container (``{"x": batch[0], "y": batch[1]}``), and methods that
give a tensor another shape."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.semantic.argument_binding import argument_of
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import FUNCTIONS, BindingKind, FunctionNode, ModuleIndex, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

T = TypeVar("T")
MAX_NODES = 120
"""A longer body does more than rearrange."""
MAX_DEPTH = 6
_WORKS = (*FUNCTIONS, ast.For, ast.While, ast.With, ast.Lambda, ast.AugAssign)
_CHEAP = frozenset({"isinstance", "len", "type", "dict", "tuple", "list", "ValueError", "TypeError", "hasattr"})
_MOVES = regex.compile(r"^_*to(_|$)|_to$|(^|_)(cuda|gpu|device|prepare|move|send|place)(_|$)", re.IGNORECASE)
_FORMATS = frozenset({"memory_format", "dtype", "copy"})
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


def changed_on_host(
    project: Project, module: ModuleIndex, call: ast.Call, batch_of: Callable[[ModuleIndex, ast.expr], T | None]
) -> T | None:
    """Return what ``batch_of`` says of the batch of which a function of the tree makes another one, on the host."""
    makers = [
        (callee.module, values)
        for callee in project.fact(Resolver).callees(module, call)
        if isinstance(callee.node, FUNCTIONS)
        and (values := project.fact(Resolver).returns(callee.node))
        and not any(map(_may_move, callee.module.calls_of(callee.node)))
    ]
    if not makers:
        return None
    passed = (*call.args, *(keyword.value for keyword in call.keywords))
    found = next((draw for argument in passed if (draw := batch_of(module, argument)) is not None), None)
    if found is None or not any(
        all(batch_of(where, value) is not None for value in values) for where, values in makers
    ):
        return None
    return found


def _may_move(call: ast.Call) -> bool:
    return bool(_MOVES.search(last_name(call.func))) and not is_reformatted(call)


def is_reformatted(call: ast.Call) -> bool:
    """Return whether ``x.to(memory_format=torch.channels_last)`` leaves a tensor where it is."""
    return bool(call.keywords) and not call.args and all(keyword.arg in _FORMATS for keyword in call.keywords)


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
