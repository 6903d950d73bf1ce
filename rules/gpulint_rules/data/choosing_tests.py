"""Tests of tensors for which the rounds of a loop need not wait: they choose one of two values, count the rows of a
tensor, or ask for elements that could be copied at once."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.placement.subscript_indices import loops_around, targets
from gpulint.placement.sync_points import SyncKind, SyncPoint
from gpulint.placement.tested_tensors import is_read_too
from gpulint.workspace.module_index import ModuleIndex


def chooses(module: ModuleIndex, sync: SyncPoint) -> bool:
    """Return whether a test only tells which of two values is taken, one of which it compares: ``x if x > 3 else
    zero``."""
    choice, test = module.syntax.parents.get(sync.node), sync.node
    if sync.kind is not SyncKind.TEST or not isinstance(choice, ast.IfExp) or not isinstance(test, ast.Compare):
        return False
    compared = {ast.unparse(side) for side in (test.left, *test.comparators)}
    return choice.test is test and any(ast.unparse(branch) in compared for branch in (choice.body, choice.orelse))


def counts(module: ModuleIndex, sync: SyncPoint) -> bool:
    """Return whether a test of what an inner loop goes through only counts: ``for row in rows: if (row ==
    zero).all(): empty += 1``."""
    branch = next((up for up in module.syntax.ancestors(sync.node) if isinstance(up, ast.stmt)), None)
    if sync.kind is not SyncKind.TEST or not isinstance(branch, ast.If) or branch.orelse:
        return False
    around = loops_around(module, branch)
    tested = {part.id for part in walk(branch.test) if isinstance(part, ast.Name)}
    return bool(around) and not tested.isdisjoint(targets(around[0])) and all(map(_adds_number, branch.body))


def filters(module: ModuleIndex, sync: SyncPoint) -> bool:
    """Return whether a test is the condition of a comprehension, for which one copy of the whole tensor serves, or
    none: ``[i for i in range(n) if kinds[i] == 0]``."""
    up = module.syntax.parents.get(sync.node)
    return sync.kind is SyncKind.TEST and isinstance(up, ast.comprehension) and sync.node in up.ifs


def is_of_element(module: ModuleIndex, sync: SyncPoint) -> bool:
    """Return whether a test compares an element that the same loop reads (``if labels[i, j] == END: break`` beside
    ``labels[i, j].item()``): one copy of the whole tensor serves both."""
    return sync.kind is SyncKind.TEST and is_read_too(module, sync.value)


def _adds_number(statement: ast.stmt) -> bool:
    match statement:
        case ast.AugAssign(target=ast.Name(), op=ast.Add(), value=ast.Constant()):
            return True
    return False
