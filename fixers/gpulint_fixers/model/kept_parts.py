"""Totals and lists of what a loss is computed of: they keep the same graph."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint_rules.model.gpu204_graph_retained import RetainedGraph, kept_in, outlives
from gpulint_rules.model.graph_values import carried, detached, lets_go

from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.training.guards import Guards
from gpulint.workspace.module_index import Binding, BindingKind, LoopNode, ModuleIndex, dotted
from gpulint_fixers.model.kept_graphs import carries_no_graph

_STEPS = 4
"""Most variables between a loss and what it is computed of."""
_TORCH = ("torch.nn.functional.", "torch.nn.", "torch.")


@dataclass(frozen=True, slots=True)
class KeptParts:
    """The tensors that are kept as they are, and the name of a value that may be none but have the graph."""

    tensors: tuple[ast.expr, ...] = ()
    unknown: str = ""


def kept_parts(project: Project, found: RetainedGraph) -> KeptParts:
    """Return what a loop keeps of the terms of a loss, and within a function of what it is computed of by a call."""
    module, loop = found.module, found.loop
    function = module.function(loop)
    losses = [part for part in walk(found.value) if isinstance(part, ast.Name)]
    parts = dict[Binding, bool]()
    for loss in losses:
        for binding, certain in _parts(project, found, loss, _STEPS):
            parts[binding] = certain or parts.get(binding, False)
    own = {binding for loss in losses for binding in _bound(module, loss)}
    tensors, unknown, without = list[ast.expr](), "", detached(module, loop)
    for kept, into, is_entry in (*((*one, False) for one in kept_in(loop)), *((*one, True) for one in _entries(loop))):
        for value in carried(kept, ()):
            bound = _bound(module, value)
            if not isinstance(value, ast.Name) or value.id in without or not bound:
                continue
            if not all(one in parts or (is_entry and one in own) for one in bound) or (own & {*bound} and not is_entry):
                continue
            if function is not None and carries_no_graph(project, module, function, value):
                continue
            if not outlives(project, module, loop, into) or lets_go(project, module, loop, into):
                continue
            if project.fact(Guards).is_without_gradients(module, kept):
                continue
            if all(one in own or (parts[one] and _is_made(project, module, one)) for one in bound):
                tensors.append(value)
            else:
                unknown = unknown or value.id
    return KeptParts(tuple(tensors), unknown)


def _entries(loop: LoopNode) -> Iterator[tuple[ast.expr, str]]:
    """Yield what a loop adds to entries of tables, of which no finding says anything: ``totals["ce"] += ce``."""
    for node in walk(loop):
        match node:
            case ast.AugAssign(op=ast.Add(), target=ast.Subscript(value=table), value=value):
                yield value, dotted(table)
            case ast.Assign(
                targets=[ast.Subscript(value=table) as target], value=ast.BinOp(left=left, op=ast.Add(), right=right)
            ) if ast.unparse(target) == ast.unparse(left):
                yield right, dotted(table)


def _bound(module: ModuleIndex, value: ast.expr) -> tuple[Binding, ...]:
    """The bindings that a variable has at a place."""
    return (*reaching(module, module.scope(value).lookup(value.id), value),) if isinstance(value, ast.Name) else ()


def _parts(project: Project, found: RetainedGraph, value: ast.expr, steps: int) -> Iterator[tuple[Binding, bool]]:
    """Yield the variables that a value is computed of, and whether they certainly hold tensors where a call sets
    them."""
    module = found.module
    match value:
        case ast.Name() if steps:
            for binding in _bound(module, value):
                if binding.kind is BindingKind.ASSIGN and not binding.path and binding.value is not None:
                    yield from _parts(project, found, binding.value, steps - 1)
                    if isinstance(binding.value, ast.Name):
                        yield from ((one, True) for one in _bound(module, binding.value))
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), right=right):
            for side, other in ((left, right), (right, left)):
                certain = isinstance(value.op, ast.Add | ast.Sub) or not _is_of_step(found, other)
                yield from ((one, certain) for one in _bound(module, side))
                yield from _parts(project, found, side, steps)
        case ast.Call(func=ast.Attribute(value=owner), args=[]):
            yield from ((one, True) for one in _bound(module, owner))
            yield from _parts(project, found, owner, steps)
        case ast.Call(args=args) if module.function(found.loop) is not None:
            certain = _is_of_torch(project, module, value)
            for given in args:
                yield from ((one, certain) for one in _bound(module, given))
                yield from _parts(project, found, given, steps)


def _is_of_step(found: RetainedGraph, factor: ast.expr) -> bool:
    """Return whether a step sets a factor, which may then be the tensor of a product."""
    names = [part for part in walk(factor) if isinstance(part, ast.Name)]
    bound = (binding for name in names for binding in _bound(found.module, name))
    return any(found.loop in found.module.syntax.ancestors(binding.node) for binding in bound)


def _is_made(project: Project, module: ModuleIndex, binding: Binding) -> bool:
    """Return whether a call computes what a variable is set to, which is never a number then."""
    parts = [*walk(binding.value)] if binding.value is not None else []
    calls = [part for part in parts if isinstance(part, ast.Call)]
    if not calls or any(isinstance(part, ast.IfExp | ast.BoolOp) for part in parts):
        return False
    resolver = project.fact(Resolver)
    nodes = (made.node for call in calls for made in resolver.callees(module, call))
    returned = (one for node in nodes if isinstance(node, ast.FunctionDef) for one in resolver.returns(node))
    return not any(isinstance(one, ast.Constant) for one in returned)


def _is_of_torch(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """``F.cross_entropy(...)``, and a module of PyTorch that the program makes."""
    resolver = project.fact(Resolver)
    names = set(resolver.call_names(module, call))
    for made in resolver.points_to(module, call.func):
        if isinstance(made.node, ast.Call):
            names |= resolver.call_names(made.module, made.node)
    return bool(names) and all(name.startswith(_TORCH) for name in names)
