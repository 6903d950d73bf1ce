"""Tests that hold at a few counts of a whole run: ``step in (5, 20, 100)``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.semantic.path_conditions import conditions, parts_of
from gpulint.values.constants import Constants
from gpulint.values.counter_names import is_counter
from gpulint.workspace.module_index import LOOPS, Binding, BindingKind, ModuleIndex

if TYPE_CHECKING:
    from gpulint.project import Project

FEW = 10
"""Most counts that are few."""


def is_at_few_counts(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a place is only reached at a few counts of what no loop starts anew."""
    return any(
        wanted
        and isinstance(part, ast.Compare)
        and isinstance(part.ops[0], ast.In)
        and is_counter(part.left)
        and _are_few(project, module, part.comparators[0])
        and _counts_whole_run(module, part.left)
        for test, holds in conditions(module, node)
        for part, wanted in parts_of(test, holds)
    )


def _are_few(project: Project, module: ModuleIndex, counts: ast.expr) -> bool:
    if isinstance(counts, ast.Tuple | ast.List | ast.Set):
        return len(counts.elts) <= FEW and not any(isinstance(part, ast.Starred) for part in counts.elts)
    return (
        project.fact(Constants).of(module, counts).every(lambda value: isinstance(value, tuple) and len(value) <= FEW)
    )


def _counts_whole_run(module: ModuleIndex, counter: ast.expr) -> bool:
    """Return whether a counter is set in no loop, other than to the next count or by a loop that is in no other."""
    bindings: list[Binding] = []
    if isinstance(counter, ast.Name):
        bindings = list(module.scope(counter).lookup(counter.id))
    elif isinstance(counter, ast.Attribute) and (owner := module.class_of(counter)) is not None:
        bindings = list(module.attributes.get((owner, counter.attr), []))
    counted = [one for one in bindings if one.kind in (BindingKind.AUGMENT, BindingKind.LOOP)]
    return bool(counted) and all(
        one.kind is BindingKind.AUGMENT or not any(isinstance(up, LOOPS) for up in module.syntax.ancestors(one.node))
        for one in bindings
    )
