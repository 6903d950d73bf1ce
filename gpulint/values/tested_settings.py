"""Tests of settings that the configuration files of a tree decide, however a program loads them."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gpulint.semantic.points_to import Resolver
from gpulint.values.tree_settings import everywhere
from gpulint.workspace.module_index import ModuleIndex

if TYPE_CHECKING:
    from gpulint.project import Project

_COMPARES: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Is: operator.eq,
    ast.IsNot: operator.ne,
    ast.In: lambda value, given: value in given,
    ast.NotIn: lambda value, given: value not in given,
}


def is_set_otherwise(project: Project, module: ModuleIndex, test: ast.expr, wanted: bool) -> bool:
    """Return whether all configuration files that know what a condition tests say the opposite (``config.clip == -1``,
    where all say ``clip: 5.0``)."""
    asked = test.left if isinstance(test, ast.Compare) else test
    if not isinstance(asked, ast.Name | ast.Attribute | ast.Subscript | ast.Call):
        return False
    origins = project.fact(Resolver).points_to(module, asked)
    values = [everywhere(project, origin) for origin in origins]
    return all(values) and all(_turns_out(test, value) is (not wanted) for each in values for value in each)


def _turns_out(test: ast.expr, value: object) -> bool | None:
    """Return how a test of a setting turns out for a value of it; None if that is unknown."""
    match test:
        case ast.Compare(ops=[compares], comparators=[given]) if type(compares) in _COMPARES:
            try:
                return bool(_COMPARES[type(compares)](value, ast.literal_eval(given)))
            except (ValueError, TypeError):
                return None
        case ast.Compare():
            return None
    return bool(value)
