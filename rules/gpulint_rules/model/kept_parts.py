"""Totals and lists of what a loss is computed of: they keep the same graph."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.query import query
from gpulint.records import dataclass
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.training.differentiation import propagated
from gpulint.training.guards import Guards
from gpulint.workspace.module_index import Binding, BindingKind, LoopNode, ModuleIndex, dotted
from gpulint_rules.model.graph_values import carried, detached, lets_go
from gpulint_rules.model.kept_graphs import carries_no_graph
from gpulint_rules.model.lasting_totals import RetainedGraph, kept_in, outlives

_STEPS = 4
"""Most variables between a loss and what it is computed of."""
_MODEL = regex.compile(r"model|net|encoder|decoder|backbone|module", re.IGNORECASE)
"""Names of what is called to run a model."""
_OUTPUT = regex.compile(r"loss|logits|hidden|embed|feature|output|pred|recon", re.IGNORECASE)
"""Names of parts of what a model returns that are computed with gradients."""
_JOINS = frozenset({"torch.cat", "torch.stack", "torch.concat", "torch.vstack", "torch.hstack"})
_TORCH = ("torch.nn.functional.", "torch.nn.", "torch.")


@dataclass(frozen=True, slots=True)
class KeptParts:
    """The tensors that are kept as they are, and the values that may be none but have the graph."""

    tensors: tuple[ast.expr, ...] = ()
    unsure: tuple[ast.expr, ...] = ()
    of_others: frozenset[ast.expr] = frozenset()
    """Those that keep the graph of another loss."""


def kept_parts(project: Project, found: RetainedGraph) -> KeptParts:
    """Return what a loop keeps of the terms of a loss, and within a function of what it is computed of by a call."""
    module, loop = found.module, found.loop
    function = module.function(loop)
    losses = [part for part in walk(found.value) if isinstance(part, ast.Name)]
    own_parts = _parts_of(project, found, losses)
    other_parts = _parts_of(project, found, _of_others(module, loop))
    parts = other_parts | own_parts
    own = {binding for loss in losses for binding in _bound(module, loss)}
    tensors, unsure, without = list[ast.expr](), list[ast.expr](), detached(module, loop)
    outputs = {binding.value for binding in parts if binding.path and _is_of_model(binding.value)}
    for kept, into, is_entry in (*((*one, False) for one in kept_in(loop)), *((*one, True) for one in entries(loop))):
        for value in carried(kept, ()):
            root = _root(value)
            bound = _bound(module, root)
            if not isinstance(root, ast.Name) or root.id in without or not bound:
                continue
            if not all(one in parts or one.value in outputs or (is_entry and one in own) for one in bound):
                continue
            if own & {*bound} and not is_entry:
                continue
            if function is not None and carries_no_graph(project, module, function, value):
                continue
            if not outlives(project, module, loop, into) or lets_go(project, module, loop, into):
                continue
            if project.fact(Guards).is_without_gradients(module, kept):
                continue
            certain = into in _joined(module, function or module.syntax.tree) or (
                root is value and all(one in own or _is_tensor(project, module, one, parts) for one in bound)
            )
            (tensors if certain and into not in propagated(project, module, function) else unsure).append(value)
    of_others = other_parts.keys() - own_parts.keys()
    others = (one for one in (*tensors, *unsure) if (of := {*_bound(module, _root(one))}) and of <= of_others)
    return KeptParts(tuple(tensors), tuple(unsure), frozenset(others))


def _parts_of(project: Project, found: RetainedGraph, losses: list[ast.Name]) -> dict[Binding, bool]:
    """Return the variables that losses are computed of, and whether they certainly hold tensors."""
    parts = dict[Binding, bool]()
    for loss in losses:
        for binding, certain in _parts(project, found, loss, _STEPS):
            parts[binding] = certain or parts.get(binding, False)
    return parts


@query
def _joined(_module: ModuleIndex, function: ast.AST) -> frozenset[str]:
    """The lists that PyTorch joins, which it only does with tensors: ``torch.cat(outputs)``."""
    calls = (part for part in walk(function) if isinstance(part, ast.Call) and part.args)
    return frozenset(dotted(call.args[0]) for call in calls if dotted(call.func) in _JOINS)


def _is_of_model(value: ast.expr | None) -> bool:
    """Return whether a call runs a model by its name: all that it returns is computed by the same layers."""
    return isinstance(value, ast.Call) and _MODEL.search(dotted(value.func)) is not None


def _root(value: ast.expr) -> ast.expr:
    """``out`` of ``out.logits`` and ``out["logits"]``, which are named for what a model computes."""
    match value:
        case ast.Attribute(value=ast.Name() as owner, attr=str(name)):
            return owner if _OUTPUT.search(name) else value
        case ast.Subscript(value=ast.Name() as owner, slice=ast.Constant(value=str(name))):
            return owner if _OUTPUT.search(name) else value
    return value


def entries(loop: LoopNode) -> Iterator[tuple[ast.expr, str]]:
    """Yield what a loop puts into tables and lists otherwise than by itself, of which no finding says anything:
    ``totals["ce"] += ce``, ``losses[name].append(ce)``, ``rows.append((ce, kl))``, ``table[step] = ce``."""
    for node in walk(loop):
        match node:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr="append"), args=[value])):
                if isinstance(owner, ast.Subscript):
                    yield value, dotted(owner.value)
                yield from ((one, dotted(owner)) for one in _elements(value))
            case ast.AugAssign(op=ast.Add(), target=target, value=ast.List() as value):
                yield from ((one, dotted(target)) for one in _elements(value))
            case ast.Assign(targets=[ast.Subscript(value=table, slice=index)], value=ast.Name() as value) if (
                not isinstance(index, ast.Constant | ast.Slice)
            ):
                yield value, dotted(table)
            case ast.AugAssign(op=ast.Add(), target=ast.Subscript(value=table), value=value):
                yield value, dotted(table)
            case ast.Assign(
                targets=[ast.Subscript(value=table) as target], value=ast.BinOp(left=left, op=ast.Add(), right=right)
            ) if ast.unparse(target) == ast.unparse(left):
                yield right, dotted(table)


def _elements(value: ast.expr) -> list[ast.expr]:
    """The values of a tuple, list or table that is written out."""
    match value:
        case ast.Tuple(elts=elts) | ast.List(elts=elts) | ast.Dict(values=elts):
            return elts
    return []


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
                if (given := _given(binding)) is not None:
                    yield from _parts(project, found, given, steps - 1)
                    if isinstance(given, ast.Name):
                        yield from ((one, True) for one in _bound(module, given))
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), right=right):
            for side, other in ((left, right), (right, left)):
                certain = isinstance(value.op, ast.Add | ast.Sub) or not _is_of_step(found, other)
                yield from ((one, certain) for one in _bound(module, side))
                yield from _parts(project, found, side, steps)
        case ast.Call(func=ast.Attribute(value=owner), args=[]):
            yield from ((one, True) for one in _bound(module, owner))
            yield from _parts(project, found, owner, steps)
        case ast.Subscript(value=owner, slice=index):
            # Several indices are those of a tensor; one may be that of a list.
            certain = isinstance(index, ast.Tuple) and any(isinstance(one, ast.Slice) for one in index.elts)
            yield from ((one, certain) for one in _bound(module, owner))
            yield from _parts(project, found, owner, steps)
        case ast.Attribute(value=ast.Name() as owner, attr=attr) if _OUTPUT.search(attr):
            yield from ((one, False) for one in _bound(module, owner))
        case ast.Call(args=args, keywords=keywords) if module.function(found.loop) is not None:
            certain = _is_of_torch(project, module, value)
            for given in (*args, *(one.value for one in keywords)):
                yield from ((one, certain) for one in _bound(module, given))
                yield from _parts(project, found, given, steps)


def _given(binding: Binding) -> ast.expr | None:
    """The whole value that a variable is set to, or the term that is added to it (``loss += term``)."""
    if isinstance(binding.node, ast.AugAssign) and isinstance(binding.node.op, ast.Add | ast.Sub):
        return binding.node.value
    return binding.value if binding.kind is BindingKind.ASSIGN and not binding.path else None


def _is_of_step(found: RetainedGraph, factor: ast.expr) -> bool:
    """Return whether a step sets a factor, which may then be the tensor of a product."""
    names = [part for part in walk(factor) if isinstance(part, ast.Name)]
    bound = (binding for name in names for binding in _bound(found.module, name))
    return any(found.loop in found.module.syntax.ancestors(binding.node) for binding in bound)


def _of_others(module: ModuleIndex, loop: LoopNode) -> list[ast.Name]:
    """Return the other losses of a loop's steps, of which it keeps none as they are: the terms of a second optimizer's
    loss (``critic_loss.backward()``)."""
    totals = {dotted(tensor) for kept, _ in kept_in(loop) for tensor in carried(kept, ())}
    return [
        call.func.value
        for call in module.calls_by_name.get("backward", ())
        if isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id not in totals
        and all(keyword.arg != "retain_graph" for keyword in call.keywords)
        and loop in module.syntax.ancestors(call)
    ]


def _is_tensor(
    project: Project, module: ModuleIndex, binding: Binding, parts: dict[Binding, bool], steps: int = _STEPS
) -> bool:
    """Return whether a variable that a loss is computed of certainly holds a tensor: a call computes it, or it is the
    sum or product of one."""
    if not steps or not parts.get(binding, False):
        return False
    if _is_made(project, module, binding):
        return True
    value = binding.value if binding.kind is BindingKind.ASSIGN and not binding.path else None
    return any(
        bool(bound := _bound(module, operand))
        and all(_is_tensor(project, module, one, parts, steps - 1) for one in bound)
        for operand in _operands(value)
    )


def _operands(value: ast.expr | None) -> Iterator[ast.expr]:
    """Yield what an expression adds and multiplies."""
    match value:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), right=right):
            yield from _operands(left)
            yield from _operands(right)
        case ast.Name():
            yield value


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
