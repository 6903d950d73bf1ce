"""Another number in the place of one in any file, with the help text and the comment that name it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpulint import regex
from gpulint.finding import Place
from gpulint.fix import Edit
from gpulint.project import Project
from gpulint.source import SourceText, Span

_NUMBERS = regex.compile(r"\d+")
_UNITS = "(?:training |global |optimizer )?(?:steps?|iterations?|iters?|updates|batches)|workers|processes"
"""What numbers of settings count."""


def replace_number(project: Project, place: Place, old: int, new: str) -> tuple[Edit, ...] | None:
    """Edits that write ``new`` for ``old``; None if the place does not hold that number."""
    document = project.document(place.path)
    if document is None:
        return None
    source, span = document.cell_source(place.span.cell), place.span
    text = source.text[source.offset(span.line, span.column) : source.offset(span.end_line, span.end_column)]
    if text.replace("_", "") != str(old):
        return None
    grouped = f"{int(new):_}" if "_" in text and new.isdecimal() else new
    return Edit(place.path, span, grouped), *follow(project, place, old, new)


def follow(project: Project, place: Place, old: int, new: str) -> Iterator[Edit]:
    """Edits of what says ``default: 4`` or ``every 4 steps`` beside a default that changes: the option's help, and a
    comment on its line."""
    document = project.document(place.path)
    if document is None:
        return
    source, span = document.cell_source(place.span.cell), place.span
    named = re.compile(rf"(?i)\bdefault\w*\W{{0,3}}(?:is |to |value )?\W?(?<![\d.]){old}(?![\d.]*\d)")
    counted = re.compile(rf"(?i)\b(?:every|each|after) {old}\b|\b{old}(?= (?:{_UNITS})\b)")
    for start, end in [*_comment(source, span), *_help(project, place, source)]:
        alone = len(_NUMBERS.findall(source.text, start, end)) == 1  # another one may follow from it
        found = [*named.finditer(source.text, start, end)]
        for match in found or (counted.finditer(source.text, start, end) if alone else ()):
            at = match.end() - len(str(old))
            where = source.span(at, match.end())
            yield Edit(place.path, Span(where.line, where.column, where.end_line, where.end_column, span.cell), new)


def _comment(source: SourceText, span: Span) -> Iterator[tuple[int, int]]:
    """Yield where a comment behind the number stands."""
    rest = source.line(span.end_line)[span.end_column - 1 :]
    if "#" in rest:
        start = source.offset(span.end_line, span.end_column)
        yield start + rest.index("#"), start + len(rest)


def _help(project: Project, place: Place, source: SourceText) -> Iterator[tuple[int, int]]:
    """Yield where the help of the option is whose default stands at the place; nothing in notebooks and other files."""
    module = project.module_at(place.path)
    if module is None or place.span.cell is not None:
        return
    for call in module.calls:
        if not call.lineno <= place.span.line <= (call.end_lineno or call.lineno):
            continue
        for keyword in call.keywords:
            if keyword.arg in ("help", "description") and isinstance(keyword.value, ast.Constant | ast.BinOp):
                yield module.syntax.offsets(keyword.value)
