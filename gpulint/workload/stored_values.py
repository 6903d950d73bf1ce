"""What the constructor of a data set stores for the call that makes the object."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpulint.semantic.argument_binding import argument_of
from gpulint.semantic.chosen_returns import is_ruled_out
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import Binding, BindingKind, FunctionNode, ModuleIndex, NodeRef

if TYPE_CHECKING:
    from gpulint.project import Project


def stored_for(project: Project, module: ModuleIndex, value: ast.expr, maker: NodeRef | None) -> list[NodeRef]:
    """Return which parts of a value that a constructor stores count for a call of it: those that its arguments do not
    rule out, and for a parameter what the call passes. Without such a call the value counts as a whole."""
    call, function = maker.node if maker is not None else None, module.function(value)
    if maker is None or not isinstance(call, ast.Call) or function is None:
        return [NodeRef(module, value)]
    if all(one.node is not function for one in project.fact(Resolver).callees(maker.module, call)):
        return [NodeRef(module, value)]
    either = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
    kept = (one for one in either if not is_ruled_out(module, function, one, call))
    return [_passed(NodeRef(module, one), function, NodeRef(maker.module, call)) for one in kept]


def _passed(value: NodeRef, function: FunctionNode, maker: NodeRef) -> NodeRef:
    """Return what a call passes for a parameter, or its default; any other value as it is."""
    call, name = maker.node, value.node
    bound = value.module.scope(name).lookup(name.id) if isinstance(name, ast.Name) else []
    if not isinstance(call, ast.Call) or not isinstance(name, ast.Name) or not _is_parameter(bound, function):
        return value
    given = argument_of(function, call, name.id)
    if given is not None:
        return value if isinstance(given, ast.Starred) else NodeRef(maker.module, given)
    return NodeRef(value.module, bound[0].value) if bound[0].value is not None else value


def _is_parameter(bound: Sequence[Binding], function: FunctionNode) -> bool:
    """Return whether a name is a parameter of a function that nothing binds anew."""
    return [(one.kind, one.scope.node) for one in bound] == [(BindingKind.PARAMETER, function)]
