"""Applying text edits: pure functions from a text and edits to a new text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpulint.fix import Edit, Fix
from gpulint.source import SourceText

_MARK = "\ufeff"


class Overlap(ValueError):
    """Two edits touch the same characters."""


def apply(text: str, edits: Iterable[Edit]) -> str:
    """``text`` with all ``edits`` done; equal edits count once, insertions at one place keep their order.

    Spans count in ``text`` (for a notebook: in the source of the cell that the edits belong to), from behind a byte
    order mark if there is one: no column counts it, and it stays first.

    Raises:
        Overlap: the result would depend on which edit goes first.
    """
    if text.startswith(_MARK):
        return _MARK + apply(text.removeprefix(_MARK), edits)
    parts, at = [], 0
    for start, end, new in _ordered(SourceText(text), edits):
        if start < at:
            raise Overlap(f"edits overlap at character {start}")
        parts += [text[at:start], new]
        at = end
    return "".join(parts) + text[at:]


def _ordered(source: SourceText, edits: Iterable[Edit]) -> list[tuple[int, int, str]]:
    unique = dict.fromkeys(
        (
            source.offset(edit.span.line, edit.span.column),
            source.offset(edit.span.end_line, edit.span.end_column),
            edit.text,
        )
        for edit in edits
    )
    return sorted(unique, key=lambda edit: (edit[0], edit[1]))


def disjoint(fixes: Iterable[Fix]) -> list[Fix]:
    """The fixes that can be applied together, first come first served; equal edits (one import for two) do not collide.

    Two fixes that insert different text at one place do collide: the second waits for the next round, where it sees the
    first one's result.
    """
    taken: list[Edit] = []
    chosen = []
    for fix in fixes:
        if fix.edits and not any(_collide(edit, other) for edit in fix.edits for other in taken):
            chosen.append(fix)
            taken += fix.edits
    return chosen


def _collide(edit: Edit, other: Edit) -> bool:
    if edit == other or edit.path != other.path or edit.span.cell != other.span.cell:
        return False
    start, end = (edit.span.line, edit.span.column), (edit.span.end_line, edit.span.end_column)
    there, over = (other.span.line, other.span.column), (other.span.end_line, other.span.end_column)
    return start == there or (start < over and there < end)


def by_file(fixes: Sequence[Fix]) -> dict[tuple[str, int | None], list[Edit]]:
    """All edits of ``fixes``, by path and cell."""
    files: dict[tuple[str, int | None], list[Edit]] = {}
    for fix in fixes:
        for edit in fix.edits:
            files.setdefault((str(edit.path), edit.span.cell), []).append(edit)
    return files
