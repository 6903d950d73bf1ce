"""Tests of parameters that no call of the tree makes hold: a norm of another kind, a mode that nothing asks for."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from gpulint.documents.call_syntax import default_of
from gpulint.semantic.argument_binding import argument_of
from gpulint.semantic.points_to import Resolver
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, BindingKind, FunctionNode, ModuleIndex, NodeRef, dotted

if TYPE_CHECKING:
    from gpulint.project import Project

_EQUAL: dict[type[ast.cmpop], Callable[[object, object], bool]] = {ast.Eq: operator.eq, ast.NotEq: operator.ne}
MAX_SITES = 12
"""Most calls of a function whose arguments are read."""
_AMONG: dict[type[ast.cmpop], Callable[[object, Any], bool]] = {
    ast.In: lambda value, among: value in among,
    ast.NotIn: lambda value, among: value not in among,
}
_SPELT: dict[str, Callable[[str], str]] = {"lower": str.lower, "upper": str.upper, "strip": str.strip}
_INFINITE = frozenset({"torch.inf", "math.inf", "np.inf", "numpy.inf", "np.Inf", "float('inf')", "float('Inf')"})


def fails_for_calls(project: Project, module: ModuleIndex, test: ast.expr, wanted: bool) -> bool:
    """Return whether a comparison of a parameter turns out otherwise than ``wanted`` by the constants that all calls in
    the tree pass, or by its default: ``norm_type == torch.inf`` with ``norm_type=2.0``, ``device.lower() in ("cuda",
    "gpu")`` with ``device="cpu"``."""
    match test:
        case ast.Compare(left=left, ops=[compares], comparators=[other]) if type(compares) in _EQUAL:
            limit, holds = _constant(other), _EQUAL[type(compares)]
        case ast.Compare(left=left, ops=[compares], comparators=[ast.Tuple() | ast.List() | ast.Set() as among]) if (
            type(compares) in _AMONG
        ):
            parts = [_constant(one) for one in among.elts]
            limit = ([one[0] for one in parts if one],) if all(parts) else None
            holds = _AMONG[type(compares)]
        case _:
            return False
    spelt: Callable[[str], str] = str
    match left:
        case ast.Call(func=ast.Attribute(value=ast.Name() as name, attr=attr), args=[], keywords=[]) if attr in _SPELT:
            spelt = _SPELT[attr]
        case ast.Name() as name:
            pass
        case _:
            return False
    if limit is None or (function := _function_of(module, name)) is None:
        return False
    if not project.fact(Resolver).first_sites(module, function, 1) or is_handed_on(module, function):
        return False
    here = _is_replaced_below(module, name, function)
    asked = passed_to(project, module, function, name.id) if here else [NodeRef(module, name)]
    found = [project.fact(Constants).of(one.module, one.node) for one in asked]
    return bool(found) and all(
        all(value.source == "literal" for value in known.values)
        and known.every(
            lambda value: (
                isinstance(value, str | int | float)
                and holds(spelt(value) if isinstance(value, str) else value, limit[0]) is not wanted
            )
        )
        for known in found
    )


def passed_to(project: Project, module: ModuleIndex, function: FunctionNode, name: str) -> list[NodeRef]:
    """Return what the calls of a function pass for a parameter, its default among them where one leaves it out; nothing
    if the calls are unknown."""
    sites = project.fact(Resolver).first_sites(module, function, MAX_SITES + 1)
    default = default_of(function.args, name)
    found = list[NodeRef]()
    for site in sites:
        assert isinstance(site.node, ast.Call)
        given = argument_of(function, site.node, name)
        if given is None and default is None:
            return []
        found.append(NodeRef(site.module, given) if given is not None else NodeRef(module, default or site.node))
    return found if len(sites) <= MAX_SITES and not is_handed_on(module, function) else []


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


def _is_replaced_below(module: ModuleIndex, name: ast.Name, function: FunctionNode) -> bool:
    """Return whether a function replaces a parameter only below a use of it, which so has what calls pass: ``if device
    != "cpu": device = f"cuda:{index}"``."""
    others = [one.node for one in module.scope(name).lookup(name.id) if one.kind is not BindingKind.PARAMETER]
    end = (name.lineno, name.col_offset)
    if not others or any((getattr(one, "lineno", 0), getattr(one, "col_offset", 0)) <= end for one in others):
        return False
    inside = takewhile(lambda up: up is not function, module.syntax.ancestors(name))
    return not any(isinstance(up, (*LOOPS, *FUNCTIONS)) for up in inside)


def is_handed_on(module: ModuleIndex, function: FunctionNode) -> bool:
    """Return whether a function is used other than by a call, so that others call it: ``mp.spawn(run)``."""
    parents = module.syntax.parents
    return any(getattr(parents.get(use), "func", None) is not use for use in module.uses.get(function.name, ()))
