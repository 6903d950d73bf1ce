"""Values with an autograd graph: which names still hold what was differentiated, and what carries its graph on."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, NamedTuple

from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import Binding, BindingKind, LoopNode, ModuleIndex, dotted, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_DETACHING = frozenset({"item", "detach", "detach_", "float", "tolist", "cpu", "numpy", "data"})
_COUNTING = frozenset({"len", "int", "size", "numel", "dim"})
"""Functions and methods whose result is a number."""
_PASSING = frozenset({"mean", "sum", "clone", "float", "squeeze", "view", "reshape"})
"""Methods whose result still carries the graph."""


def has_graph(module: ModuleIndex, loop: LoopNode, tensor: ast.expr, backward: ast.Call) -> bool:
    """Return whether a name still is what ``backward`` ran on wherever the total may get it, or is computed from
    that."""
    name = dotted(tensor)
    used = next((part for part in walk(backward) if isinstance(part, type(tensor)) and dotted(part) == name), None)
    if used is None:
        return False
    if not isinstance(tensor, ast.Name):
        values = [node.value for node in changes(module, loop).made.get(name, ()) if node.lineno > backward.lineno]
        return all(any(dotted(part) == name for part in carried(value, {name})) for value in values)
    bindings = module.scope(tensor).lookup(tensor.id)
    differentiated = frozenset(reaching(module, bindings, used))
    return all(
        _carries_graph(module, binding, differentiated, frozenset()) for binding in reaching(module, bindings, tensor)
    )


def _carries_graph(
    module: ModuleIndex, binding: Binding, differentiated: frozenset[Binding], seen: frozenset[Binding]
) -> bool:
    """Return whether a variable is bound to what was differentiated, or to what is computed from it. A value that a
    loop computes from itself alone proves nothing."""
    if binding in differentiated or binding in seen:
        return binding in differentiated
    if binding.value is None or binding.path or binding.kind is not BindingKind.ASSIGN:
        return False
    return any(
        isinstance(part, ast.Name)
        and (bound := reaching(module, module.scope(part).lookup(part.id), part))
        and all(_carries_graph(module, one, differentiated, seen | {binding}) for one in bound)
        for part in carried(binding.value, ())
    )


def carried(value: ast.expr, losses: Collection[str]) -> list[ast.expr]:
    """The tensors whose graphs the value carries on, or may carry on beside a loss."""
    match value:
        case ast.Name() | ast.Attribute() if last_name(value) not in _DETACHING:
            return [value]
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div(), right=right):
            sides = (carried(left, losses), carried(right, losses))
            known = [side for side in sides if any(dotted(tensor) in losses for tensor in side)]
            # Beside a loss, a factor is a weight or a number of samples.
            return [tensor for side in known or sides for tensor in side]
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            return [*carried(left, losses), *carried(right, losses)]
        case ast.Call(func=ast.Attribute(value=owner, attr=attr), args=[]) if attr in _PASSING:
            return carried(owner, losses)
        case ast.Call(func=function) if last_name(function) not in _DETACHING | _COUNTING:
            return [value]
        case ast.Subscript():
            return [value]
    return []


class Changes(NamedTuple):
    """What happens to names below a node."""

    anew: frozenset[str]
    """Assigned otherwise than by adding to themselves."""
    ended: str
    """Calls of ``backward`` and ``clear``, as text."""
    made: dict[str, list[ast.Assign]]
    """Assigned, also by unpacking."""


@query
def changes(module: ModuleIndex, root: ast.AST) -> Changes:
    anew, ended, made = set[str](), list[str](), dict[str, list[ast.Assign]]()
    for node in walk(root):
        if isinstance(node, ast.Assign):
            left = dotted(node.value.left) if isinstance(node.value, ast.BinOp) else ""
            anew.update(name for target in node.targets if (name := dotted(_whole(target))) and name != left)
            for name in {dotted(target) for target in _targets(node)}:
                made.setdefault(name, []).append(node)
        elif isinstance(node, ast.Call) and last_name(node.func) in ("backward", "clear"):
            ended.append(ast.unparse(node))
    return Changes(frozenset(anew), "\n".join(ended), made)


def _whole(target: ast.expr) -> ast.expr:
    """``losses`` of ``losses[:] = []``"""
    match target:
        case ast.Subscript(value=value, slice=ast.Slice(lower=None, upper=None)):
            return value
    return target


def _targets(node: ast.Assign) -> Iterator[ast.expr]:
    for target in node.targets:
        yield from target.elts if isinstance(target, ast.Tuple) else [target]


@query
def detached(module: ModuleIndex, loop: LoopNode) -> frozenset[str]:
    """Names that are bound to a detached value somewhere in the loop (``loss = loss.item()``), or detached in place."""
    return _owners(loop, ("detach_",)) | frozenset(
        dotted(name)
        for node in walk(loop)
        if isinstance(node, ast.Assign)
        for target in node.targets
        for name, value in _paired(target, node.value)
        if isinstance(value, ast.Call) and last_name(value.func) in _DETACHING
    )


def _owners(loop: LoopNode, methods: Collection[str]) -> frozenset[str]:
    """Names whose methods a loop calls."""
    calls = (part.func for part in walk(loop) if isinstance(part, ast.Call))
    return frozenset(dotted(func.value) for func in calls if isinstance(func, ast.Attribute) and func.attr in methods)


def lets_go(project: Project, module: ModuleIndex, loop: LoopNode, name: str) -> bool:
    """Return whether a total does not keep all that it gets: the loop takes parts out or detaches it, it is a
    ``deque(maxlen=...)``, or a class of the tree decides."""
    if name in _owners(loop, ("pop", "popleft", "detach_")):
        return True
    if any(isinstance(part, ast.Delete) and any(_is_item_of(one, name) for one in part.targets) for part in walk(loop)):
        return True
    parts = (part for part in walk(loop) if isinstance(part, ast.Name | ast.Attribute))
    total = next((part for part in parts if dotted(part) == name), None)
    if total is None:
        return False
    resolver = project.fact(Resolver)
    return bool(resolver.classes_of(module, total)) or any(
        isinstance(made.node, ast.Call)
        and last_name(made.node.func) == "deque"
        and (len(made.node.args) > 1 or any(keyword.arg == "maxlen" for keyword in made.node.keywords))
        for made in resolver.points_to(module, total)
    )


def _is_item_of(target: ast.expr, name: str) -> bool:
    """``del window[0]``"""
    return isinstance(target, ast.Subscript) and dotted(target.value) == name


def _paired(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """Return what an assignment sets, each with its own value (``a, b = a.item(), b.item()``)."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        return [*zip(target.elts, value.elts, strict=True)]
    return [(target, value)]
