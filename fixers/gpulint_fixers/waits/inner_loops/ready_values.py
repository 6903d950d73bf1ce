"""What a fix for the reads of an inner loop leaves: other reads of its rounds, and waits of the step beside values that
are ready before the loop."""

from __future__ import annotations

import ast
from itertools import takewhile

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait
from gpulint_rules.data.wait_counts import calls_model, has_few_rounds

from gpulint.documents.python import walk
from gpulint.fix import Fix
from gpulint.workspace.module_index import COMPREHENSIONS, FUNCTIONS, ModuleIndex


def is_changed(made: Fix, wait: object) -> bool:
    """Return whether a fix changes all places of a statement that wait, or what the loops go through whose variables
    they read: ``for token in tokens.tolist()``."""
    return isinstance(wait, HostWait) and all(
        _is_in_edit(made, wait.module, sync.node) or _is_of_changed(made, wait.module, sync.value)
        for sync in wait.syncs
    )


def _is_of_changed(made: Fix, module: ModuleIndex, value: ast.expr | None) -> bool:
    """Return whether a value is the variable of a loop that goes through something else after a fix."""
    if not isinstance(value, ast.Name):
        return False
    for up in module.syntax.ancestors(value):
        for one in up.generators if isinstance(up, COMPREHENSIONS) else [up] if isinstance(up, ast.For) else []:
            if any(isinstance(part, ast.Name) and part.id == value.id for part in walk(one.target)):
                return _is_in_edit(made, module, one.iter, behind=True)
    return False


def places_of(*waits: object) -> frozenset[ast.AST]:
    """Return the places of statements that wait."""
    return frozenset(sync.node for wait in waits if isinstance(wait, HostWait) for sync in wait.syncs)


def _is_in_edit(made: Fix, module: ModuleIndex, node: ast.expr, *, behind: bool = False) -> bool:
    """Return whether a fix changes a part of an expression, or puts something right ``behind`` it."""
    span = module.syntax.span(node)
    start, end = (span.line, span.column), (span.end_line, span.end_column)
    return any(
        ((edit.span.line, edit.span.column) < end and start < (edit.span.end_line, edit.span.end_column))
        or (behind and (edit.span.line, edit.span.column) == end)
        for edit in made.edits
        if edit.path == module.path and edit.span.cell == span.cell
    )


def inner_round(found: HostWait) -> ast.For | ast.comprehension | None:
    """Return the innermost loop or comprehension around a wait, inside of the step."""
    node, step = found.syncs[0].node, found.context.loop.node
    around = takewhile(lambda up: up is not step and not isinstance(up, FUNCTIONS), found.module.syntax.ancestors(node))
    inner = next((up for up in around if isinstance(up, (ast.For, *COMPREHENSIONS))), None)
    return inner if inner is None or isinstance(inner, ast.For) else inner.generators[-1]


def are_ready(found: HostWait) -> bool:
    """Return whether an inner loop reads a handful of values that are computed before it: ``for name, value in
    losses.items(): shown[name] = value.item()``. The first of them waits, the others are small copies."""
    inner = inner_round(found)
    if inner is None or not has_few_rounds(found.module, inner) or calls_model(inner):
        return False
    bound = {part.id for part in walk(inner.target) if isinstance(part, ast.Name)}
    return all(_is_ready(found, inner, bound, sync.value) for sync in found.syncs)


def _is_ready(found: HostWait, inner: ast.For | ast.comprehension, bound: set[str], value: ast.expr | None) -> bool:
    """Return whether a value is what a loop goes through (``value.detach()``), or an entry of a table in which no other
    statement of the loop puts anything (``losses[name]``)."""
    while isinstance(value, ast.Call | ast.Attribute):
        plain = isinstance(value, ast.Attribute) or not (value.args or value.keywords)
        value = (value.func if isinstance(value, ast.Call) else value.value) if plain else None
    match value:
        case ast.Name(id=name):
            return name in bound
        case ast.Subscript(value=ast.Name(id=table), slice=ast.Name(id=key)):
            stored = (
                part.value
                for statement in (inner.body if isinstance(inner, ast.For) else ())
                if statement is not found.statement
                for part in walk(statement)
                if isinstance(part, ast.Subscript) and not isinstance(part.ctx, ast.Load)
            )
            return key in bound and not any(isinstance(one, ast.Name) and one.id == table for one in stored)
    return False
