"""Calls of which parts change on a line that becomes too long: each argument then gets a line of its own."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from gpulint.documents.python import PythonModule
from gpulint.fix import Edit
from gpulint.source import Span
from gpulint_fixers.edits.calls import line_width, spread

LEAST = 110
"""Columns that a line may have before its call is broken."""


def broken(module: PythonModule, edits: Sequence[Edit]) -> tuple[Edit, ...]:
    """Return edits of a module, with those of a call that would make its line too long in one edit of the call."""
    found = list(edits)
    for line in {edit.span.line for edit in edits if edit.path == module.path and edit.span.cell is None}:
        own = [edit for edit in found if edit.path == module.path and edit.span.line == line == edit.span.end_line]
        grown = sum(len(edit.text) - (edit.span.end_column - edit.span.column) for edit in own)
        length, most = len(module.source.line(line).rstrip()), max(LEAST, line_width(module.source.text))
        call = _call_of(module, line, own) if length + grown > most else None
        if call is not None and (lines := spread(module, call, tuple(own))) is not None:
            found = [*(edit for edit in found if edit not in own), lines]
        else:
            found = [_aligned(edit, own) if edit in own else edit for edit in found]
    return tuple(found)


def _aligned(edit: Edit, beside: Sequence[Edit]) -> Edit:
    """An edit with the lines that it adds below a parenthesis, which edits before it on the line move."""
    head, *more = edit.text.split("\n")
    before = [one for one in beside if one.span.column < edit.span.column]
    if not more or not before or any("\n" in one.text for one in before):
        return edit
    if min(len(line) - len(line.lstrip(" ")) for line in more) < max(one.span.end_column for one in before) - 1:
        return edit
    grown = sum(len(one.text) - (one.span.end_column - one.span.column) for one in before)
    return replace(edit, text="\n".join([head, *(" " * grown + line[max(-grown, 0) :] for line in more)]))


def _call_of(module: PythonModule, line: int, edits: Sequence[Edit]) -> ast.Call | None:
    """The call that is all of a statement's value, on one line, and whose arguments hold all edits. What adds
    an argument to it is laid out already."""
    for statement in module.of(ast.Assign, ast.Expr, ast.Return):
        assert isinstance(statement, ast.Assign | ast.Expr | ast.Return)
        value = statement.value
        if statement.lineno != line or statement.end_lineno != line or not isinstance(value, ast.Call):
            continue
        parts = [*value.args, *(keyword.value for keyword in value.keywords)]
        spans = [module.span(part) for part in parts]
        if len(parts) > 1 and all(any(_is_inside(edit, span) for span in spans) for edit in edits):
            return value
    return None


def _is_inside(edit: Edit, part: Span) -> bool:
    """Return whether an edit changes an argument, and adds none behind it."""
    if not (part.column <= edit.span.column and edit.span.end_column <= part.end_column):
        return False
    return edit.span.column < part.end_column or not edit.text.lstrip().startswith(",")
