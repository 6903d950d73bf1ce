"""Places that only come after more rounds than a loop has: ``if (epoch + 1) % 5 == 0`` of two epochs."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.semantic.path_conditions import conditions, parts_of
from gpulint.training.loop_iterables import unwrap_iterable
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import last_name

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex


def comes_after_last_round(subject: Subject) -> bool:
    """Return whether a place runs every N rounds of a loop that has fewer, by numbers that the code sets."""
    module, node = subject.module, subject.node
    return module is not None and node is not None and _is_never_due(subject.project, module, node)


def _is_never_due(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    for test, holds in conditions(module, node):
        for part, wanted in parts_of(test, holds):
            match part:
                case ast.Compare(
                    left=ast.BinOp(left=counted, op=ast.Mod(), right=period),
                    ops=[ast.Eq()],
                    comparators=[ast.Constant(value=0)],
                ) if wanted and _has_fewer_rounds(project, module, counted, period):
                    return True
    return False


def _has_fewer_rounds(project: Project, module: ModuleIndex, counted: ast.expr, period: ast.expr) -> bool:
    """Return whether what a test counts from one never gets to a period."""
    match counted:
        case ast.BinOp(left=ast.Name() as name, op=ast.Add(), right=ast.Constant(value=1)):
            first = 0
        case ast.Name() as name:
            first = 1
        case _:
            return False
    rounds = _rounds(module, name, first)
    if rounds is None:
        return False
    most, every = _numbers(project, module, rounds), _numbers(project, module, period)
    return bool(most) and bool(every) and max(most) < min(every)


def _rounds(module: ModuleIndex, name: ast.Name, first: int) -> ast.expr | None:
    """Return how many rounds the loop around has that counts from a number: ``range(n)``, ``range(1, n + 1)``."""
    for up in module.syntax.ancestors(name):
        if isinstance(up, ast.For) and isinstance(up.target, ast.Name) and up.target.id == name.id:
            counts = unwrap_iterable(up.iter)
            if not isinstance(counts, ast.Call) or last_name(counts.func) != "range":
                return None
            match counts.args:
                case [rounds] if first == 0:
                    return rounds
                case [ast.Constant(value=1), ast.BinOp(left=rounds, op=ast.Add(), right=ast.Constant(value=1))]:
                    return rounds if first == 1 else None
            return None
    return None


def _numbers(project: Project, module: ModuleIndex, node: ast.expr) -> list[int]:
    """Return the numbers that the code sets a value to; none if an option or something unknown may set it."""
    known = project.fact(Constants).of(module, node)
    numbers = [one.value for one in known.values if one.source == "literal" and type(one.value) is int]
    return numbers if known.complete and len(numbers) == len(known.values) else []
