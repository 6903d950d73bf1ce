"""Tests of whether an option is set, which hold in all rounds of a loop or in none: ``if args.save_every > 0``."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.workspace.module_index import BindingKind, ModuleIndex


@query
def asked_options(module: ModuleIndex, test: ast.expr) -> frozenset[ast.AST]:
    """Return the names in a test that are only compared with 0, 1 or None, or asked whether they are true."""
    asked = {test}
    for part in walk(test):
        match part:
            case ast.Compare(left=left, comparators=[ast.Constant(value=None | 0 | 1)]):
                asked.add(left)
            case ast.BoolOp(values=values):
                asked.update(values)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                asked.add(operand)
    return frozenset(one for one in asked if isinstance(one, ast.Attribute) or _is_option(module, one))


def _is_option(module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a name is a parameter or a constant, and no rest that each round computes."""
    if not isinstance(node, ast.Name):
        return False
    bindings = module.scope(node).lookup(node.id)
    return all(one.kind is BindingKind.PARAMETER or isinstance(one.value, ast.Constant) for one in bindings)
