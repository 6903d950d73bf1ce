"""Mappings that hold numbers where a helper is given them: a program reads each value before (``log({"loss":
loss.item()})``)."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.semantic.argument_binding import argument_of
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import FUNCTIONS, Binding, BindingKind, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_READS = frozenset({"item", "tolist", "float", "int", "round", "len", "str", "bool"})
"""Functions and methods whose result is on the host."""
_TESTS = frozenset({"isinstance", "is_tensor", "hasattr", "type"})
"""Functions that ask whether a value is a tensor."""
MAX_NAMES = 3
"""Most variables and functions that a mapping is followed through."""


def gets_numbers(project: Project, module: ModuleIndex, value: ast.expr, call: NodeRef) -> bool:
    """Return whether ``value`` is an item of a mapping for which ``call`` passes one of numbers."""
    function, mapping = module.function(value), _mapping_of(module, value)
    if mapping is None or not isinstance(function, FUNCTIONS) or not isinstance(call.node, ast.Call):
        return False
    bindings = reaching(module, module.scope(mapping).lookup(mapping.id), mapping)
    if not bindings or any(one.kind is not BindingKind.PARAMETER for one in bindings):
        return False
    given = argument_of(function, call.node, mapping.id)
    return given is not None and _holds_numbers(project, call.module, given, MAX_NAMES)


def _mapping_of(module: ModuleIndex, value: ast.expr) -> ast.Name | None:
    """``losses`` of ``losses[key]``, and of ``value`` in ``for key, value in losses.items()``."""
    match value:
        case ast.Subscript(value=ast.Name() as mapping):
            return mapping
        case ast.Name(id=name):
            bindings = reaching(module, module.scope(value).lookup(name), value)
            found = [looped for one in bindings if (looped := _looped_over(one)) is not None]
            return found[0] if len(found) == len(bindings) == 1 else None
    return None


def _looped_over(binding: Binding) -> ast.Name | None:
    match binding:
        case Binding(
            kind=BindingKind.LOOP,
            value=ast.Call(func=ast.Attribute(value=ast.Name() as mapping, attr="items" | "values" as view), args=[]),
            path=path,
        ) if path == ((1,) if view == "items" else ()):
            return mapping
    return None


def _holds_numbers(project: Project, module: ModuleIndex, mapping: ast.expr, names: int) -> bool:
    match mapping:
        case ast.Dict(values=values):
            return bool(values) and all(map(_is_number, values))
        case ast.DictComp(value=value):
            return _is_number(value)
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords):
            return bool(keywords) and all(_is_number(keyword.value) for keyword in keywords)
        case ast.Call() if names:
            called = project.fact(Resolver).callees(module, mapping)
            returned = [
                (one.module, value)
                for one in called
                if isinstance(one.node, FUNCTIONS)
                for value in project.fact(Resolver).returns(one.node)
            ]
            return bool(returned) and all(_holds_numbers(project, *one, names - 1) for one in returned)
        case ast.Name() if names:
            if _is_converted(module, mapping):
                return True
            bindings = reaching(module, module.scope(mapping).lookup(mapping.id), mapping)
            made = [one.value if one.kind is BindingKind.ASSIGN and not one.path else None for one in bindings]
            stored = _stored(module, mapping)
            return (
                bool(made)
                and all(map(_is_number, stored))
                and all(
                    value is not None
                    and ((bool(stored) and _is_empty(value)) or _holds_numbers(project, module, value, names - 1))
                    for value in made
                )
            )
    return False


def _is_number(value: ast.expr) -> bool:
    match value:
        case ast.Constant() | ast.JoinedStr():
            return True
        case ast.Call(func=func):
            return last_name(func) in _READS
        case ast.BinOp(left=left, right=right):
            return _is_number(left) and _is_number(right)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return (
                (_is_number(body) or _is_number(orelse))
                if _asks_type(test)
                else _is_number(body) and _is_number(orelse)
            )
    return False


def _asks_type(test: ast.expr) -> bool:
    """``isinstance(value, torch.Tensor)``; what fails such a test is no tensor."""
    while isinstance(test, ast.UnaryOp):
        test = test.operand
    return isinstance(test, ast.Call) and last_name(test.func) in _TESTS


def _is_empty(value: ast.expr) -> bool:
    """``{}``, ``dict()``, ``OrderedDict()``"""
    return not value.values if isinstance(value, ast.Dict) else isinstance(value, ast.Call) and not value.args


def _stored(module: ModuleIndex, mapping: ast.Name) -> list[ast.expr]:
    """Return what the function of a place stores in a mapping; the mapping itself for what ``update`` adds to it."""
    stored = list[ast.expr]()
    for use in module.uses.get(mapping.id, ()):
        if module.function(use) is module.function(mapping):
            stored += _stores(module, use)
    return stored


def _stores(module: ModuleIndex, use: ast.Name) -> list[ast.expr]:
    match module.syntax.parents.get(use):
        case ast.Attribute(attr="update" | "setdefault"):
            return [use]
        case ast.Subscript(ctx=ast.Store()) as item if item.value is use:
            up = module.syntax.parents.get(item)
            return [up.value if isinstance(up, ast.Assign) else use]
    return []


def _is_converted(module: ModuleIndex, mapping: ast.Name) -> bool:
    """Return whether a loop right before makes numbers of all items: ``for k, v in d.items(): d[k] = v.item()``."""
    inner: ast.AST = mapping
    for up in module.syntax.ancestors(mapping):
        if isinstance(inner, ast.stmt) and (place := module.syntax.place(inner)) is not None:
            for statement in reversed(getattr(up, place[0])[: place[1]]):
                if isinstance(statement, ast.For) and _converts(module, statement, mapping.id):
                    return True
                if _changes(module, statement, mapping.id):
                    return False
        if isinstance(up, (*FUNCTIONS, ast.For, ast.While)):
            return False
        inner = up
    return False


def _converts(module: ModuleIndex, loop: ast.For, name: str) -> bool:
    source = loop.iter
    while isinstance(source, ast.Call):
        if isinstance(source.func, ast.Attribute) and source.func.attr in ("items", "keys"):
            source = source.func.value
        elif source.args:
            source = source.args[0]
        else:
            return False
    return (
        isinstance(source, ast.Name)
        and source.id == name
        and any(
            isinstance(part, ast.Assign)
            and _is_item(part.targets[0], name)
            and _is_number(part.value)
            and all(_asks_type(test) for test, _ in conditions(module, part, loop))
            for statement in loop.body
            for part in (statement, *(statement.body if isinstance(statement, ast.If) else ()))
        )
    )


def _is_item(target: ast.expr, name: str) -> bool:
    return isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) and target.value.id == name


def _changes(module: ModuleIndex, statement: ast.stmt, name: str) -> bool:
    """Return whether a statement sets a mapping anew or may add to it."""
    return any(
        isinstance(use.ctx, ast.Store) or bool(_stores(module, use))
        for use in module.named.get(name, ())
        if statement in module.syntax.ancestors(use)
    )
