"""Branches for what was not passed (``if loader is None: loader = DataLoader(...)``), where each caller passes it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.query import query
from gpulint.semantic.argument_binding import RECEIVERS, CallbackCall, argument_of
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import FUNCTIONS, BindingKind, FunctionNode, ModuleIndex

if TYPE_CHECKING:
    from gpulint.project import Project

MAX_CALLS = 2
"""Most calls between the test and the place."""


@query
def is_for_missing_argument(
    project: Project, module: ModuleIndex, node: ast.AST, among: frozenset[Path] = frozenset(), calls: int = MAX_CALLS
) -> bool:
    """Return whether a place only runs if a parameter is None, in its function or in all that call it, and each call
    in the tree, or in the modules ``among`` others, passes something for it."""
    if any(_is_passed(project, module, tested, among) for tested in _missing(module, node)):
        return True
    function = module.function(node)
    if function is None or not calls:
        return False
    sites = project.fact(Resolver).call_sites(module, function)
    return bool(sites) and all(
        not isinstance(site.node, CallbackCall)
        and is_for_missing_argument(project, site.module, site.node, among, calls - 1)
        for site in sites
    )


def _missing(module: ModuleIndex, node: ast.AST) -> Iterator[ast.expr]:
    """Yield what the conditions around a place say is None."""
    for test, holds in conditions(module, node):
        match test:
            case ast.Compare(
                left=ast.Name() | ast.Attribute() as left,
                ops=[ast.Is() | ast.IsNot() as operator],
                comparators=[ast.Constant(value=None)],
            ) if isinstance(operator, ast.Is) is holds:
                yield left


def _is_passed(project: Project, module: ModuleIndex, tested: ast.expr, among: frozenset[Path]) -> bool:
    """Return whether a value is that of a parameter for which each call passes something."""
    match tested:
        case ast.Name(id=name):
            bindings = reaching(module, module.scope(tested).lookup(name), tested)
            functions = {one.scope.node for one in bindings if one.kind is BindingKind.PARAMETER}
            if len(bindings) != 1 or len(functions) != 1:
                return False
            function = functions.pop()
            return isinstance(function, FUNCTIONS) and _is_given(project, module, function, name, among)
        case ast.Attribute(value=ast.Name(id=receiver), attr=name) if receiver in RECEIVERS:
            owner = module.class_of(tested)
            kept = module.attributes.get((owner, name), []) if owner is not None else []
            made = [one.value for one in kept if (home := module.function(one.node)) and home.name == "__init__"]
            return len(made) == 1 and isinstance(made[0], ast.Name) and _is_passed(project, module, made[0], among)
    return False


@query
def _is_given(project: Project, module: ModuleIndex, function: FunctionNode, name: str, among: frozenset[Path]) -> bool:
    """Return whether each call of a function, one at least, passes something other than None for a parameter."""
    everywhere = project.fact(Resolver).call_sites(module, function)
    sites = [site for site in everywhere if not among or site.module.path in among]
    return bool(sites) and all(
        isinstance(site.node, ast.Call)
        and not isinstance(site.node, CallbackCall)
        and (passed := argument_of(function, site.node, name)) is not None
        and not isinstance(passed, ast.Starred)
        and not any(
            isinstance(made.node, ast.arg) or (isinstance(made.node, ast.Constant) and made.node.value is None)
            for made in project.fact(Resolver).points_to(site.module, passed)
        )
        for site in sites
    )
