"""Applying text edits: pure functions from a text and edits to a new text."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path

from gpulint import regex
from gpulint.fix import Edit, Fix
from gpulint.source import SourceText

_BREAK = regex.compile(r"(?<!\r)\n")


class Overlap(ValueError):
    """Two edits touch the same characters."""


def apply(text: str, edits: Iterable[Edit]) -> str:
    """``text`` with all ``edits`` done; equal edits count once, insertions at one place keep their order.

    Spans count in ``text`` (for a notebook: in the source of the cell that the edits belong to). Line breaks of new
    text, written as ``\\n``, become those that the text has at that place.

    Raises:
        Overlap: the result would depend on which edit goes first.
    """
    parts, at = [], 0
    for start, end, new in replacements(text, edits):
        parts += [text[at:start], new]
        at = end
    return "".join(parts) + text[at:]


def replacements(text: str, edits: Iterable[Edit]) -> list[tuple[int, int, str]]:
    """``edits`` as (start, end, new text) in order; ``start`` and ``end`` are character offsets in ``text``.

    Raises:
        Overlap: two of them touch the same characters.
        ValueError: a span does not lie within the text.
    """
    source = SourceText(text)
    unique = dict.fromkeys(
        (
            _offset(source, edit.span.line, edit.span.column),
            _offset(source, edit.span.end_line, edit.span.end_column),
            _BREAK.sub(_line_break(source, edit.span.line), edit.text) if "\n" in edit.text else edit.text,
        )
        for edit in edits
    )
    ordered = sorted(unique, key=lambda edit: (edit[0], edit[1]))
    at = 0
    for start, end, _ in ordered:
        if start < at:
            raise Overlap(f"edits overlap at character {start}")
        if end < start:
            raise ValueError(f"an edit ends before it starts, at character {start}")
        at = end
    return _without_gaps(text, ordered)


def _without_gaps(text: str, ordered: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Removals of several lines, one below the other, with the empty lines below them of which there are as many above:
    none of them is the only one between these."""
    found, first = ordered[:1], 0
    for number, (start, end, new) in enumerate(ordered[1:], 1):
        found.append((start, end, new))
        if new or ordered[number - 1][2] or ordered[number - 1][1] != start:
            first = number
            continue
        after = ordered[number + 1][0] if number + 1 < len(ordered) else len(text)
        begin = ordered[first][0]
        if after > end and text[:begin][-1:] in ("", "\n") and text[end - 1] == "\n":
            found[-1] = (start, _below_gap(text, end, after, _empty_above(text, begin)), new)
    return found


def _empty_above(text: str, begin: int) -> int:
    """The number of empty lines above an offset."""
    found = 0
    while begin and not text[(start := text.rfind("\n", 0, begin - 1) + 1) : begin].strip():
        found, begin = found + 1, start
    return found


def _below_gap(text: str, end: int, limit: int, most: int) -> int:
    """The offset below the empty lines from ``end`` on, of which it passes so many at most."""
    for _ in range(most):
        line = text.find("\n", end, limit)
        if line < 0 or text[end:line].strip():
            break
        end = line + 1
    return end


def _line_break(source: SourceText, line: int) -> str:
    """The line ending of ``line``, or of the one above it where that is the last one."""
    starts = source.line_starts
    start, end = starts[line - 1 : line + 1] if line < len(starts) else (starts[-2:] if len(starts) > 1 else (0, 0))
    raw = source.text[start:end]
    return "\r\n" if raw.endswith("\r\n") else raw[-1:] or "\n"


def _offset(source: SourceText, line: int, column: int) -> int:
    """Offset of a place. One that its line does not have is no place: text of another line would be changed."""
    starts = source.line_starts
    if line == len(starts) + 1 and column == 1:  # the line after the last one
        return len(source.text)
    if 1 <= line <= len(starts) and column >= 1:
        offset, end = starts[line - 1] + column - 1, starts[line] - 1 if line < len(starts) else len(source.text)
        if offset <= end:
            return offset
    raise ValueError(f"there is no line {line}, column {column}")


class Moves:
    """Where places of a text are after replacements."""

    def __init__(self, done: Sequence[tuple[int, int, str]] = ()) -> None:
        """``done`` is sorted, as ``replacements`` returns it."""
        self._starts = [start for start, _, _ in done]
        self._ends = [end for _, end, _ in done]
        self._shifts = [0, *accumulate(len(new) - (end - start) for start, end, new in done)]

    def of(self, offset: int) -> int:
        """Return where ``offset`` is afterwards; what was replaced moves to the start of the new."""
        index = bisect_right(self._ends, offset)
        inside = index < len(self._starts) and self._starts[index] <= offset
        return (self._starts[index] if inside else offset) + self._shifts[index]


def disjoint(fixes: Iterable[Fix]) -> list[Fix]:
    """The fixes that can be applied together, first come first served; equal edits (one import for two) do not collide.

    Two fixes that insert different text at one place do collide, unless the order does not matter: the second waits for
    the next round, where it sees the first one's result. So do two that bring different files of one name.
    """
    taken: dict[tuple[Path, int | None, int], set[Edit]] = {}
    files: dict[Path, str] = {}
    chosen = []
    for fix in fixes:
        if not fix.changes or any(files.get(made.path, made.text) != made.text for made in fix.files):
            continue
        lines = [(edit, line) for edit in fix.edits for line in _lines(edit)]
        new = ((edit, taken[line]) for edit, line in lines if line in taken and edit not in taken[line])
        if any(_collide(edit, other) for edit, others in new for other in others):
            continue
        chosen.append(fix)
        files |= {made.path: made.text for made in fix.files}
        for edit, line in lines:
            taken.setdefault(line, set()).add(edit)
    return chosen


def _lines(edit: Edit) -> list[tuple[Path, int | None, int]]:
    """The lines that an edit touches; edits that collide share one."""
    span = edit.span
    return [(edit.path, span.cell, line) for line in range(span.line, span.end_line + 1)]


def _collide(edit: Edit, other: Edit) -> bool:
    if edit == other or (edit.commutes and other.commutes and edit.span == other.span):
        return False
    start, end = (edit.span.line, edit.span.column), (edit.span.end_line, edit.span.end_column)
    there, over = (other.span.line, other.span.column), (other.span.end_line, other.span.end_column)
    return start == there or (start < over and there < end)


def by_file(fixes: Sequence[Fix]) -> dict[Path, dict[int | None, list[Edit]]]:
    """All edits of ``fixes``, by path and cell."""
    files: dict[Path, dict[int | None, list[Edit]]] = {}
    for fix in fixes:
        for edit in fix.edits:
            files.setdefault(edit.path, {}).setdefault(edit.span.cell, []).append(edit)
    return files
