"""Tests that hold for few random numbers: ``random.random() < 0.02``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.semantic.points_to import Resolver
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import ModuleIndex

if TYPE_CHECKING:
    from gpulint.project import Project

SELDOM = 0.1
"""Largest chance that counts as seldom."""
_CHANCES = frozenset({"random.random", "numpy.random.rand", "numpy.random.random", "torch.rand"})
"""Functions that draw a number between 0 and 1."""


def is_by_chance(project: Project, module: ModuleIndex, test: ast.expr, holds: bool) -> bool:
    """Return whether a test holds (or fails) for few random numbers: ``random.random() < 0.02``."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) and holds:
        return any(is_by_chance(project, module, part, holds) for part in test.values)
    match test:
        case ast.Compare(left=drawn, ops=[ast.Lt() | ast.LtE()], comparators=[share]) if holds:
            pass
        case ast.Compare(left=drawn, ops=[ast.Gt() | ast.GtE()], comparators=[share]) if not holds:
            pass
        case _:
            return False
    if isinstance(drawn, ast.Call) and isinstance(drawn.func, ast.Attribute) and drawn.func.attr == "item":
        drawn = drawn.func.value
    if not isinstance(drawn, ast.Call) or not project.fact(Resolver).call_names(module, drawn) & _CHANCES:
        return False
    known = project.fact(Constants).of(module, share)
    return known.every(lambda value: isinstance(value, int | float) and value <= SELDOM)
