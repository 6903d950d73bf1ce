"""Tests whether a value is the best so far (``if score > best: best = score``), which few values are."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.values.counter_names import counts_epochs, is_counter

if TYPE_CHECKING:
    from gpulint.workspace.module_index import ModuleIndex

_ORDERS = (ast.Gt, ast.GtE, ast.Lt, ast.LtE)


def sets_record(module: ModuleIndex, test: ast.Compare) -> bool:
    """Return whether a block that runs where a comparison holds keeps the one side as the other: the more values there
    were, the fewer are better than all of them. What counts steps grows with each."""
    if len(test.ops) != 1 or not isinstance(test.ops[0], _ORDERS):
        return False
    branch: ast.AST | None = module.syntax.parents.get(test)
    while isinstance(branch, ast.BoolOp):
        if isinstance(branch.op, ast.Or) and not all(one is test or _is_first(one) for one in branch.values):
            return False
        branch = module.syntax.parents.get(branch)
    if not isinstance(branch, ast.If) or test not in walk(branch.test):
        return False
    sides = (test.left, test.comparators[0])
    if any(is_counter(side) or counts_epochs(_last(side)) for side in sides):
        return False
    return any(_keeps(statement, *pair) for statement in branch.body for pair in (sides, sides[::-1]))


def _is_first(test: ast.expr) -> bool:
    """``best is None``, ``not best``: there was no value yet."""
    match test:
        case ast.Compare(ops=[ast.Is()], comparators=[ast.Constant(value=None)]) | ast.UnaryOp(op=ast.Not()):
            return True
    return False


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _keeps(statement: ast.stmt, value: ast.expr, best: ast.expr) -> bool:
    """``best = score``, ``self.best, kept = score.item(), model``"""
    if not isinstance(statement, ast.Assign) or not isinstance(best, ast.Name | ast.Attribute | ast.Subscript):
        return False
    kept, text = ast.unparse(best), ast.unparse(value)
    for target in statement.targets:
        pairs = [(target, statement.value)]
        if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            pairs = list(zip(target.elts, statement.value.elts, strict=False))
        for one, given in pairs:
            if ast.unparse(one) == kept and any(
                isinstance(part, ast.expr) and ast.unparse(part) == text for part in walk(given)
            ):
                return True
    return False
