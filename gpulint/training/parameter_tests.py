"""Tests of parameters that no call of the tree makes hold: a norm of another kind, a mode that nothing asks for."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING

from gpulint.semantic.points_to import Resolver
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import FUNCTIONS, BindingKind, FunctionNode, ModuleIndex, dotted

if TYPE_CHECKING:
    from gpulint.project import Project

_EQUAL: dict[type[ast.cmpop], Callable[[object, object], bool]] = {ast.Eq: operator.eq, ast.NotEq: operator.ne}
_INFINITE = frozenset({"torch.inf", "math.inf", "np.inf", "numpy.inf", "np.Inf", "float('inf')", "float('Inf')"})


def fails_for_calls(project: Project, module: ModuleIndex, test: ast.expr, wanted: bool) -> bool:
    """Return whether a comparison of a parameter turns out otherwise than ``wanted`` by the constants that all calls in
    the tree pass, or by its default: ``norm_type == torch.inf`` with ``norm_type=2.0``."""
    match test:
        case ast.Compare(left=ast.Name() as name, ops=[compares], comparators=[other]) if type(compares) in _EQUAL:
            limit = _constant(other)
        case _:
            return False
    if limit is None or (function := _function_of(module, name)) is None:
        return False
    if not project.fact(Resolver).first_sites(module, function, 1) or is_handed_on(module, function):
        return False
    holds = _EQUAL[type(compares)]
    known = project.fact(Constants).of(module, name)
    return all(value.source == "literal" for value in known.values) and known.every(
        lambda value: isinstance(value, str | int | float) and holds(value, limit[0]) is not wanted
    )


def _constant(node: ast.expr) -> tuple[object] | None:
    """Return the number or text that an expression is, as the only part of a tuple."""
    match node:
        case ast.Constant(value=str() | int() | float() as value):
            return (value,)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            found = _constant(inner)
            return (-found[0],) if found is not None and isinstance(found[0], int | float) else None
        case ast.Attribute() | ast.Call() if (dotted(node) or ast.unparse(node)) in _INFINITE:
            return (math.inf,)
    return None


def _function_of(module: ModuleIndex, name: ast.Name) -> FunctionNode | None:
    """Return the function of which a name is a parameter, which at most another constant replaces."""
    bound = module.scope(name).lookup(name.id)
    function = next((one.scope.node for one in bound if one.kind is BindingKind.PARAMETER), None)
    kinds = {one.kind for one in bound}
    is_own = isinstance(function, FUNCTIONS) and kinds <= {BindingKind.PARAMETER, BindingKind.ASSIGN}
    return function if is_own and isinstance(function, FUNCTIONS) else None


def is_handed_on(module: ModuleIndex, function: FunctionNode) -> bool:
    """Return whether a function is used other than by a call, so that others call it: ``mp.spawn(run)``."""
    parents = module.syntax.parents
    return any(getattr(parents.get(use), "func", None) is not use for use in module.uses.get(function.name, ()))
