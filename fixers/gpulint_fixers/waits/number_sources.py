"""Values that are converted by ``float(value)`` and may be plain numbers, which have no ``detach``: entries of what a
function returns, elements of lists, what callers pass."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Sequence

from gpulint.placement.added_items import added_to
from gpulint.placement.expressions import looped_over
from gpulint.placement.table_entries import TableEntries
from gpulint.project import Project
from gpulint.semantic.argument_binding import argument_of
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.values.bound_parts import bound_part, part_of
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, Binding, BindingKind, ModuleIndex, NodeRef, last_name
from gpulint_fixers.waits.element_types import is_about_loss

_DEEPEST = 8
"""How many names, functions and containers a value is followed through."""
_READS = frozenset({"item", "tolist"})
_NUMBERS = frozenset({"float", "int", "len", "round", "bool"})
_JOINS = frozenset({"sum", "max", "min"})
_VIEWS = frozenset({"values", "items"})


def may_be_cast_number(project: Project, module: ModuleIndex, tensor: ast.expr) -> bool:
    """Return whether what ``float(value)`` converts may be a plain number; not what a backward pass starts from."""
    text = ast.unparse(tensor)
    trained = any(
        isinstance(call.func, ast.Attribute)
        and ast.unparse(call.func.value) == text
        and module.function(call) is module.function(tensor)
        for call in module.calls_by_name.get("backward", ())
    )
    return not trained and may_be_number(project, module, tensor)


def may_be_number(project: Project, module: ModuleIndex, node: ast.expr, depth: int = _DEEPEST) -> bool:
    """Return whether a value may be a plain number by what makes it, or is the entry of a table that nothing tells
    of."""
    if depth == 0:
        return False
    match node:
        case ast.Call():
            return _is_number_of_call(project, module, node, depth - 1)
        case ast.Subscript(slice=ast.Constant(value=str(key))):
            held = project.fact(TableEntries).under(module, node)
            if held:
                return any(may_be_number(project, one.module, _expression(one), depth - 1) for one in held)
            return _is_of_call(module, node.value) and not is_about_loss(key)
        case ast.IfExp(body=body, orelse=orelse):
            return any(_is_plain(one) or may_be_number(project, module, one, depth - 1) for one in (body, orelse))
        case ast.Name(id=name):
            bindings = reaching(module, module.scope(node).lookup(name), node)
            return stays_number(module, bindings) or any(
                _is_bound(project, module, name, one, depth - 1) for one in bindings
            )
    return False


def stays_number(module: ModuleIndex, bindings: Sequence[Binding]) -> bool:
    """Return whether a variable starts as a number, to which only branches add: ``loss = 0.0``, ``if pairs: loss =
    loss + distance(pairs)``. A loop that adds to it is taken to have a round that does."""
    plain = [one for one in bindings if (part := bound_part(one)) is not None and _is_plain(part)]
    others = [one for one in bindings if one not in plain]
    around = ([up for up in _around(module, one.node) if not _contains(module, up, plain)] for one in others)
    return bool(plain and others) and all(
        any(isinstance(up, ast.If) for up in one) and not any(isinstance(up, LOOPS) for up in one) for one in around
    )


def _around(module: ModuleIndex, node: ast.AST) -> Iterator[ast.AST]:
    return itertools.takewhile(lambda up: not isinstance(up, FUNCTIONS), module.syntax.ancestors(node))


def _contains(module: ModuleIndex, around: ast.AST, bindings: list[Binding]) -> bool:
    return any(around in module.syntax.ancestors(one.node) for one in bindings)


def _is_number_of_call(project: Project, module: ModuleIndex, call: ast.Call, depth: int) -> bool:
    name = last_name(call.func)
    if isinstance(call.func, ast.Attribute) and name in _READS:
        return True
    if isinstance(call.func, ast.Name) and name in _NUMBERS:
        return True
    if isinstance(call.func, ast.Name) and name in _JOINS and len(call.args) == 1:
        return _has_number(project, module, call.args[0], depth)
    called = project.fact(Resolver).callees(module, call) or project.fact(TableEntries).methods(call)
    returned = [
        NodeRef(one.module, value)
        for one in called
        if isinstance(one.node, FUNCTIONS) and one.node.name != "__init__"
        for value in project.fact(Resolver).returns(one.node)
    ]
    return any(
        _is_plain(_expression(one)) or may_be_number(project, one.module, _expression(one), depth) for one in returned
    )


def _is_bound(project: Project, module: ModuleIndex, name: str, binding: Binding, depth: int) -> bool:
    value = binding.value
    if binding.kind is BindingKind.PARAMETER:
        return any(
            _is_plain(one) or may_be_number(project, where, one, depth)
            for where, one in _passed(project, module, name, binding)
        )
    if value is None:
        return False
    if binding.kind is BindingKind.ASSIGN and isinstance(value, ast.Call) and binding.path:
        return _is_number_of_row(project, module, value, binding.path, depth)
    if binding.kind is BindingKind.ASSIGN:
        part = bound_part(binding)
        return part is not None and may_be_number(project, module, part, depth)
    if binding.kind is BindingKind.LOOP:
        match value:
            case ast.Call(func=ast.Attribute(value=table, attr=view), args=[]) if view in _VIEWS:
                return _has_number(project, module, table, depth)
        paths = (binding.path[:length] for length in range(len(binding.path), -1, -1))
        rows = next((found for one in paths if (found := looped_over(value, one)) is not None), None)
        return rows is not None and _has_number(project, module, rows, depth)
    return False


def _is_number_of_row(project: Project, module: ModuleIndex, call: ast.Call, path: tuple[int, ...], depth: int) -> bool:
    """Return whether one of several values that a function of the tree returns may be a number."""
    called = [one for one in project.fact(Resolver).callees(module, call) if isinstance(one.node, FUNCTIONS)]
    returned = ((one.module, value) for one in called for value in project.fact(Resolver).returns(one.node))  # type: ignore[arg-type]
    parts = ((where, part_of(value, path)) for where, value in returned)
    return any(
        part is not None and (_is_plain(part) or may_be_number(project, where, part, depth)) for where, part in parts
    )


def _passed(
    project: Project, module: ModuleIndex, name: str, binding: Binding
) -> Iterator[tuple[ModuleIndex, ast.expr]]:
    """Yield what the calls of a function hand over for a parameter."""
    function = binding.scope.node
    if isinstance(function, FUNCTIONS):
        for site in project.fact(Resolver).first_sites(module, function):
            given = argument_of(function, site.node, name) if isinstance(site.node, ast.Call) else None
            if given is not None and not isinstance(given, ast.Starred):
                yield site.module, given


def _has_number(project: Project, module: ModuleIndex, node: ast.expr, depth: int) -> bool:
    """Return whether an element of a container may be a plain number."""
    if depth == 0:
        return False
    match node:
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Dict(values=parts):
            return any(_is_plain(part) or may_be_number(project, module, part, depth - 1) for part in parts)
        case ast.ListComp(elt=part) | ast.GeneratorExp(elt=part) | ast.DictComp(value=part):
            return _is_plain(part) or may_be_number(project, module, part, depth - 1)
        case ast.Subscript(slice=ast.Constant(value=str())) if held := project.fact(TableEntries).under(module, node):
            return any(_has_number(project, one.module, _expression(one), depth - 1) for one in held)
        case ast.Name(id=name):
            bindings = reaching(module, module.scope(node).lookup(name), node)
            made = [value for one in bindings if one.kind is BindingKind.ASSIGN and (value := bound_part(one))]
            added = added_to(module, name) or () if any(map(_is_container, made)) else ()
            return any(_has_number(project, module, one, depth - 1) for one in made) or any(
                _is_plain(one) or may_be_number(project, module, one, depth - 1) for one in added
            )
    return may_be_number(project, module, node, depth - 1)


def _is_of_call(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a table is what a call returns, going by the variable that holds it."""
    if not isinstance(node, ast.Name):
        return isinstance(node, ast.Call)
    bindings = reaching(module, module.scope(node).lookup(node.id), node)
    return any(one.kind is BindingKind.ASSIGN and isinstance(one.value, ast.Call) for one in bindings)


def _is_container(node: ast.expr) -> bool:
    return isinstance(node, ast.List | ast.Dict | ast.ListComp | ast.DictComp)


def _is_plain(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def _expression(ref: NodeRef) -> ast.expr:
    assert isinstance(ref.node, ast.expr)
    return ref.node
