"""Branches of a step that a setting chooses, and that it takes by the default of the program."""

from __future__ import annotations

import ast

from gpulint.project import Project
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import ModuleIndex
from gpulint_fixers.waits.step_tests import holds_in_all_steps


def is_within_by_default(
    project: Project, module: ModuleIndex, around: frozenset[ast.AST], here: frozenset[ast.AST]
) -> bool:
    """Return whether a place with the branches ``around`` it runs by default in each step that gets to one in the
    branches ``here``, or would without them (``if args.dataset == "photos": ... else: ...``)."""
    for first in around - here:
        branch = module.syntax.parents.get(first)
        if not isinstance(branch, ast.If) or not _takes(project, module, branch.test, first is branch.body[0]):
            return False
    return True


def _takes(project: Project, module: ModuleIndex, test: ast.expr, holds: bool) -> bool:
    """Return whether the default of a setting lets a test of it hold, or not; without one, each value that it gets.
    Of tests that all have to hold, the others may be those that hold in each step of a process (``rank == 0``)."""
    match test:
        case ast.BoolOp(op=ast.And(), values=parts) if holds:
            return all(_takes(project, module, part, True) or holds_in_all_steps(module, part, None) for part in parts)
        case ast.Compare(
            left=ast.Attribute() | ast.Subscript() as left,
            ops=[ast.Eq() | ast.NotEq() as compares],
            comparators=[ast.Constant(value=str(text))],
        ):
            known = project.fact(Constants).of(module, left)
            defaults = [one for one in known.values if one.source == "default"] or known.values
            equal = isinstance(compares, ast.Eq) is holds
            return known.complete and all((one.value == text) is equal for one in defaults)
    return False
