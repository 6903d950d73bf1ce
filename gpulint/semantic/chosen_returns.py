"""What a function may return to a call, by the constants that the call passes: ``loaders("train")``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.documents.call_syntax import default_of
from gpulint.semantic.argument_binding import RECEIVERS, argument_of, parameters
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import FUNCTIONS, Binding, BindingKind, NodeRef

if TYPE_CHECKING:
    from gpulint.workspace.module_index import FunctionNode, ModuleIndex

_UNKNOWN = object()


def chosen(callee: NodeRef, values: list[ast.expr], call: NodeRef) -> Iterator[NodeRef]:
    """Yield those of the values that a function returns which no constant of a call rules out: of ``if mode ==
    "train": return a`` and ``return b``, the one for the mode that is passed. All of them where all would be. What the
    function returns of its parameters is what this call passes."""
    module, function, site = callee.module, callee.node, call.node
    assert isinstance(function, FUNCTIONS)
    assert isinstance(site, ast.Call)
    kept = values
    if len(values) > 1 and _passes_constants(site):
        kept = [value for value in values if not is_ruled_out(module, function, value, site)] or values
    for value in kept:
        yield from _given_back(module, function, value, call) or [NodeRef(module, value)]


def _given_back(module: ModuleIndex, function: FunctionNode, value: ast.expr, call: NodeRef) -> list[NodeRef]:
    """Return what a function may return by a name that is its parameter; empty if unknown, or another variable."""
    if not isinstance(value, ast.Name) or value.id in RECEIVERS or value.id not in parameters(function):
        return []
    assert isinstance(call.node, ast.Call)
    found: list[NodeRef] = []
    for binding in reaching(module, module.scope(value).lookup(value.id), value):
        if binding.kind is BindingKind.PARAMETER and binding.scope.node is function:
            passed = argument_of(function, call.node, value.id)
            given, where = (passed, call.module) if passed is not None else (binding.value, module)
        else:
            given, where = (binding.value if binding.kind is BindingKind.ASSIGN else None), module
        if given is None or binding.path or isinstance(given, ast.Starred):
            return []
        found.append(NodeRef(where, given))
    return found


def _passes_constants(call: ast.Call) -> bool:
    return any(isinstance(one, ast.Constant) for one in (*call.args, *(keyword.value for keyword in call.keywords)))


def is_ruled_out(module: ModuleIndex, function: FunctionNode, place: ast.AST, call: ast.Call) -> bool:
    """Return whether a call of a function passes constants, or leaves defaults, with which a place of it never runs."""
    return any(_truth(module, function, test, call) is (not holds) for test, holds in conditions(module, place))


def _truth(module: ModuleIndex, function: FunctionNode, test: ast.expr, call: ast.Call) -> bool | None:
    """Return whether a test of parameters holds; None if that is unknown."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            found = _truth(module, function, operand, call)
            return None if found is None else not found
        case ast.BoolOp(op=operator, values=parts):
            told = [_truth(module, function, part, call) for part in parts]
            decisive = isinstance(operator, ast.Or)
            return decisive if decisive in told else None if None in told else not decisive
        case ast.Name() | ast.Attribute():
            known = _passed(module, function, test, call)
            return None if known is _UNKNOWN else bool(known)
        case ast.Compare(left=ast.Name() | ast.Attribute() as name, ops=[operator], comparators=[right]):
            known = _passed(module, function, name, call)
            return None if known is _UNKNOWN else _compared(known, operator, right)
    return None


def _compared(known: object, operator: ast.cmpop, right: ast.expr) -> bool | None:
    match operator, right:
        case ast.Eq() | ast.Is(), ast.Constant(value=value):
            return known == value
        case ast.NotEq() | ast.IsNot(), ast.Constant(value=value):
            return known != value
        case ast.In() | ast.NotIn(), ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            values = [part.value for part in parts if isinstance(part, ast.Constant)]
            return (known in values) is isinstance(operator, ast.In) if len(values) == len(parts) else None
    return None


def _passed(module: ModuleIndex, function: FunctionNode, name: ast.Name | ast.Attribute, call: ast.Call) -> object:
    """The constant that a call passes for a parameter that nothing binds anew, or its default; also of an attribute
    that the function sets once to such a parameter (``self.frozen = frozen``)."""
    if isinstance(name, ast.Attribute):
        given = _set_once(module, function, name)
        return _passed(module, function, given, call) if given is not None else _UNKNOWN
    bindings = module.scope(name).lookup(name.id)
    if name.id not in parameters(function) or any(one.kind is not BindingKind.PARAMETER for one in bindings):
        return _UNKNOWN
    if any(one.scope.node is not function for one in bindings):
        return _UNKNOWN
    passed = argument_of(function, call, name.id) or default_of(function.args, name.id)
    return passed.value if isinstance(passed, ast.Constant) else _UNKNOWN


def _set_once(module: ModuleIndex, function: FunctionNode, name: ast.Attribute) -> ast.Name | None:
    """The variable that a method, in front of a test and whatever happens, stores into an attribute of its object,
    which its class sets nowhere else."""
    owner = module.class_of(function)
    if owner is None or not isinstance(name.value, ast.Name) or name.value.id not in RECEIVERS:
        return None
    match module.attributes.get((owner, name.attr)):
        case [Binding(node=ast.stmt() as statement, value=ast.Name() as value, path=())] if (
            statement in function.body and statement.lineno < name.lineno
        ):
            return value
    return None
