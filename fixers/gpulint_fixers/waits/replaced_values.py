"""Values of a variable that is set again before anything reads them: lists that a step fills, and that the evaluation
below starts anew."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import Binding
from gpulint_fixers.waits.deferred_reads import Variable


def of_one_value(variable: Variable, statement: ast.stmt, nodes: list[ast.Name]) -> list[ast.Name]:
    """The occurrences of a variable that see what ``statement`` makes of it or adds to it; all of them, where one may
    see other values as well."""
    bindings = variable.module.scope(variable.loop).bindings[variable.name]
    seen = {node: _seen(variable, bindings, node) for node in nodes}
    at = {binding: frozenset(walk(_statement(variable, binding.node))) for binding in bindings}
    own = frozenset(walk(statement))
    found = {node for node in nodes if node in own}
    values = set[Binding]()
    while True:
        reached = {one for node in found for one in seen[node]}
        made = {one for one, inside in at.items() if inside & found}
        values |= reached | made
        more = {node for node in nodes if seen[node] & values or any(node in at[one] for one in values)}
        if more <= found:
            break
        found |= more
    return nodes if any(seen[node] - values for node in found) else [node for node in nodes if node in found]


def _seen(variable: Variable, bindings: list[Binding], node: ast.Name) -> frozenset[Binding]:
    """The values that a variable may have where it is read, or where a statement adds to it."""
    adds = isinstance(variable.module.syntax.parents.get(node), ast.AugAssign)
    if not isinstance(node.ctx, ast.Load) and not adds:
        return frozenset()
    return frozenset(reaching(variable.module, bindings, node))


def _statement(variable: Variable, node: ast.AST) -> ast.AST:
    return node if isinstance(node, ast.stmt) else variable.statement(node)
