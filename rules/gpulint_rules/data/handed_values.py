"""What the calls that lead to a function tell of its parameters: how many values a loop goes through, whether a test
holds."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.argument_binding import argument_of
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import FUNCTIONS, BindingKind, FunctionNode, ModuleIndex, NodeRef
from gpulint_rules.data.wait_counts import NO_LOOPS, Loops, has_few_rounds, inner_loops, is_few, table_of

MAX_SITES = 4
"""Most calls of a function that are read for what they pass."""


def runs_few_handed(
    project: Project, module: ModuleIndex, node: ast.AST, loop: ast.AST, single: Loops = NO_LOOPS
) -> bool:
    """Return whether the loops of its own function that a place is in have a handful of rounds, where what a loop goes
    through is a parameter by what all calls pass: ``self.norms([self.actor, self.critic])``."""
    return all(
        has_few_rounds(module, inner) or _gets_few(project, module, inner)
        for inner in inner_loops(module, node, loop, single)
    )


@query
def _gets_few(project: Project, module: ModuleIndex, loop: ast.AST) -> bool:
    source = table_of(loop)
    function = _function_of(module, source) if isinstance(source, ast.Name) else None
    if function is None or not isinstance(source, ast.Name):
        return False
    sites = project.fact(Resolver).first_sites(module, function, MAX_SITES)
    given = [
        (site.module, argument_of(function, site.node, source.id)) for site in sites if isinstance(site.node, ast.Call)
    ]
    return bool(given) and all(value is not None and is_few(where, value) for where, value in given)


def decided(calls: Sequence[NodeRef], module: ModuleIndex, test: ast.expr) -> bool | None:
    """Return whether a test of a parameter holds by the constant that the calls pass (``model(x, ret_usages=True)``),
    through the parameters of the functions between; None if that is unknown."""
    value: ast.expr | None = test
    for site in reversed(calls):
        function = _function_of(module, value) if isinstance(value, ast.Name) else None
        if function is None or not isinstance(value, ast.Name) or not isinstance(site.node, ast.Call):
            return None
        value, module = argument_of(function, site.node, value.id), site.module
        if isinstance(value, ast.Constant):
            return bool(value.value)
    return None


def _function_of(module: ModuleIndex, value: ast.Name) -> FunctionNode | None:
    """The function of which a name is a parameter that nothing sets again."""
    bound = reaching(module, module.scope(value).lookup(value.id), value)
    if len(bound) != 1 or bound[0].kind is not BindingKind.PARAMETER:
        return None
    function = bound[0].scope.node
    return function if isinstance(function, FUNCTIONS) else None
