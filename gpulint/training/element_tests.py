"""Tests that tell the elements of an inner loop apart: a round of the loop around it passes them for some of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.workspace.module_index import COMPREHENSIONS, FUNCTIONS, ModuleIndex, last_name

_KINDS = frozenset({"isinstance", "issubclass", "hasattr", "is_tensor", "startswith", "endswith", "is_floating_point"})
"""Calls that tell what an element is or how it is called."""


@query
def selects_elements(module: ModuleIndex, test: ast.expr, holds: bool, loop: ast.AST) -> bool:
    """Return whether a test within ``loop`` asks whether there is an element of an inner loop, of which kind it is, or
    which it is: ``for p in model.parameters(): if p.grad is not None``, ``if labels[i] != -100``. Not whether it is
    more or less than something, which all of them may fail."""
    if not _asks_which(test, holds):
        return False
    names = {part.id for part in walk(test) if isinstance(part, ast.Name)}
    return not names.isdisjoint(_element_names(module, test, loop))


def _asks_which(test: ast.expr, holds: bool) -> bool:
    match test:
        case ast.Compare(ops=[ast.Is() | ast.IsNot() as is_there], comparators=[ast.Constant(value=None)]):
            return isinstance(is_there, ast.IsNot) is holds
        case ast.Compare(ops=[ast.Eq() | ast.NotEq()]):
            return True
        case ast.Compare(left=ast.Constant(), ops=[ast.In() | ast.NotIn()]) | ast.Attribute():
            return True
        case ast.Call(func=func):
            return last_name(func) in _KINDS
    return False


def _element_names(module: ModuleIndex, test: ast.expr, loop: ast.AST) -> Iterator[str]:
    """The variables of the loops and comprehensions between a test and ``loop``, in the function of the test."""
    for up in module.syntax.ancestors(test):
        if up is loop or isinstance(up, FUNCTIONS):
            return
        targets: list[ast.expr] = []
        if isinstance(up, ast.For | ast.AsyncFor):
            targets = [up.target]
        elif isinstance(up, COMPREHENSIONS):
            targets = [one.target for one in up.generators]
        yield from (part.id for target in targets for part in walk(target) if isinstance(part, ast.Name))
