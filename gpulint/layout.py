"""Edits of Python that change nothing but how code is laid out: a fix is no reason to format what it leaves alone."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

from gpulint import regex
from gpulint.edits import Overlap, apply
from gpulint.fix import Declined, Edit, Fix
from gpulint.project import Project
from gpulint.source import SourceText

ONLY_LAYOUT = "it would only change the layout of the code"
_LAYOUT = regex.compile(r"\s+|,(?=\s*(?:[)\]}]|\Z))")
"""Whitespace, and commas behind the last of several elements."""


def without_layout(project: Project, fix: Fix) -> Fix | Declined:
    """Return a fix without the edits that only break or join lines of code, or move a comma behind the last argument:
    those without which the program is the same as with them. Edits of nothing but whitespace are left, as those align
    what others move."""
    found = [edit for edit in fix.edits if edit.text.strip() and _is_layout(project, edit)]
    needless = [place for place in dict.fromkeys(map(_at, found)) if _is_same(project, fix, place, found)]
    dropped = {edit for edit in found if _at(edit) in needless}
    if not dropped:
        return fix
    left = tuple(edit for edit in fix.edits if edit not in dropped)
    return replace(fix, edits=left) if left or fix.files else Declined(ONLY_LAYOUT)


def _at(edit: Edit) -> tuple[Path, int | None]:
    return edit.path, edit.span.cell


def _is_layout(project: Project, edit: Edit) -> bool:
    """Return whether an edit leaves all characters of some Python but whitespace and such commas."""
    source, span = _source(project, _at(edit)), edit.span
    if source is None or (span.line, span.column) == (span.end_line, span.end_column):
        return False
    try:
        old = source.text[source.offset(span.line, span.column) : source.offset(span.end_line, span.end_column)]
    except (IndexError, ValueError):
        return False
    return bool(old.strip()) and _LAYOUT.sub("", old) == _LAYOUT.sub("", edit.text)


def _is_same(project: Project, fix: Fix, place: tuple[Path, int | None], dropped: list[Edit]) -> bool:
    """Return whether a fix makes the same program of a file or cell without some of its edits."""
    source = _source(project, place)
    assert source is not None
    own = [edit for edit in fix.edits if _at(edit) == place]
    try:
        with_them = ast.parse(apply(source.text, own))
        without = ast.parse(apply(source.text, [edit for edit in own if edit not in dropped]))
    except (Overlap, ValueError, SyntaxError, RecursionError, MemoryError):
        return False
    return ast.dump(with_them) == ast.dump(without)


def _source(project: Project, place: tuple[Path, int | None]) -> SourceText | None:
    path, cell = place
    document = project.document(path)
    return document.cell_source(cell) if document is not None and document.python is not None else None
