"""Rows of a table of settings: in a branch that tests a field of a row, only the rows count that satisfy the test."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpulint.query import query
from gpulint.semantic.path_conditions import conditions
from gpulint.workspace.module_index import ModuleIndex

if TYPE_CHECKING:
    from gpulint.finding import Place
    from gpulint.project import Project


def may_be_given(project: Project, module: ModuleIndex, call: ast.Call, place: Place) -> bool:
    """Return whether a call may be given the field of a row that stands at ``place``: not ``load(row["name"])`` where
    ``row["part"]`` is empty, of a row that has a part."""
    given = (*call.args, *(keyword.value for keyword in call.keywords))
    owners = {ast.unparse(value.value) for value in given if isinstance(value, ast.Subscript)}
    home = project.module_at(place.path) if owners else None
    row = _rows(home).get((place.span.cell, place.span.line, place.span.column)) if home is not None else None
    if row is None:
        return True
    return all(_may_be(row, owners, test, holds) for test, holds in conditions(module, call))


@query
def _rows(module: ModuleIndex) -> dict[tuple[int | None, int, int], ast.Dict]:
    """The place of each constant in a dictionary -> the dictionary."""
    found = dict[tuple[int | None, int, int], ast.Dict]()
    for table in module.syntax.of(ast.Dict):
        for value in table.values:
            if isinstance(value, ast.Constant):
                span = module.syntax.span(value)
                found[span.cell, span.line, span.column] = table
    return found


def _may_be(row: ast.Dict, owners: Iterable[str], test: ast.expr, holds: bool) -> bool:
    """Return whether a test of a row's fields may be so."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return _may_be(row, owners, inner, not holds)
        case ast.BoolOp(op=op, values=values) if isinstance(op, ast.And) is holds:
            return all(_may_be(row, owners, value, holds) for value in values)
        case ast.Compare(
            left=left,
            ops=[ast.Is() | ast.IsNot() | ast.Eq() | ast.NotEq() as op],
            comparators=[ast.Constant(value=asked)],
        ):
            field = _field(row, owners, left)
            return field is None or ((field.value == asked) == isinstance(op, ast.Is | ast.Eq)) is holds
    field = _field(row, owners, test)
    return field is None or bool(field.value) is holds


def _field(row: ast.Dict, owners: Iterable[str], asked: ast.expr) -> ast.Constant | None:
    """The constant that a row has for ``row["part"]`` or ``row.get("part")``; None if that is unknown."""
    match asked:
        case ast.Subscript(value=owner, slice=ast.Constant(value=key)):
            other = None
        case ast.Call(func=ast.Attribute(value=owner, attr="get"), args=[ast.Constant(value=key)]):
            other = ast.Constant(value=None)
        case _:
            return None
    if ast.unparse(owner) not in owners or None in row.keys:
        return None
    for name, value in zip(row.keys, row.values, strict=True):
        if isinstance(name, ast.Constant) and name.value == key:
            return value if isinstance(value, ast.Constant) else None
    return other
