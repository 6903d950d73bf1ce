"""Source text for people: lines around a span with the span marked, and fixes as diffs of a few lines."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import accumulate, groupby, islice
from pathlib import Path

from gpulint.counting import counted
from gpulint.edits import apply, by_file
from gpulint.escaping import printable
from gpulint.fix import Edit, Fix
from gpulint.records import dataclass
from gpulint.source import SourceText, Span

_TAB = 4
_WHOLE = 5
"""Most lines of a span that are shown whole; of longer ones, both ends are."""
_ENDS = 2
SourceOf = Callable[[Path, int | None], SourceText]
MAX_DIFF = 24
"""Most lines of a fix that are shown."""
MAX_COMPARED = 2500
"""Most pairs of old and new lines that are compared."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of an excerpt: its number (None for marks and gaps), what it is, and its text as printed."""

    number: int | None
    kind: str
    """``code``, ``mark``, ``gap`` or, in diffs, ``-`` and ``+``; ``file`` names the file of what follows, or a new one
    with the number of its lines."""
    text: str


def excerpt(source: SourceText, span: Span, most: int) -> Iterator[Line]:
    """The lines of ``span`` and one around it, in at most ``most`` columns, with marks below what the span covers."""
    last = span.end_line - 1 if span.end_column == 1 and span.end_line > span.line else span.end_line
    several = last > span.line
    indent = "  " if several else ""
    yield from _around(source, span.line - 1, indent, most)
    if several:
        yield from _long(source, span, last, most)
    else:
        text = source.line(span.line)
        end = span.end_column - 1 if span.end_line == span.line else len(text.rstrip())
        shown, start, end = _window(text, span.column - 1, end, most)
        yield Line(span.line, "code", display(shown).rstrip())
        before = _width(shown[:start])
        yield Line(None, "mark", " " * before + "^" * max(_width(shown[:end]) - before, 1))
    yield from _around(source, last + 1, indent, most)


def _around(source: SourceText, number: int, indent: str, most: int) -> Iterator[Line]:
    text = source.line(number)
    if text.strip():
        yield Line(number, "code", indent + display(_window(text, 0, 0, most)[0]).rstrip())


def _long(source: SourceText, span: Span, last: int, most: int) -> Iterator[Line]:
    """A span of several lines, with a bracket on its left from its first character to its last."""
    count = last - span.line + 1
    first = source.line(span.line)
    shown, start, _ = _window(first, span.column - 1, span.column, most)
    at_start = not first[: span.column - 1].strip()
    yield Line(span.line, "code", ("/ " if at_start else "  ") + display(shown).rstrip())
    if not at_start:
        yield Line(None, "mark", " " + "_" * (_width(shown[:start]) + 1) + "^")
    cut = count > _WHOLE
    for number in range(span.line + 1, last + 1):
        if cut and span.line + _ENDS <= number <= last - _ENDS:
            if number == span.line + _ENDS:
                yield Line(None, "gap", f"| ... {count - 2 * _ENDS} more lines")
            continue
        yield Line(number, "code", "| " + display(_window(source.line(number), 0, 0, most)[0]).rstrip())
    text = source.line(last)
    end = span.end_column - 1 if span.end_line == last else len(text.rstrip())
    shown, _, end = _window(text, 0, end, most)
    yield Line(None, "mark", "|" + "_" * max(_width(shown[:end]), 1) + "^")


def _window(text: str, start: int, end: int, most: int) -> tuple[str, int, int]:
    """The part of an overlong line around a span, with the span's place in it."""
    if len(text) <= most:
        return text, start, end
    first = max(start - most // 3, 0)
    last = first + most - 6
    head, tail = "..." if first else "", "..." if last < len(text) else ""
    shift = len(head) - first
    return head + text[first:last] + tail, start + shift, max(min(end, last), start) + shift


def display(text: str) -> str:
    """``text`` as printed: tabs as blanks, and what the terminal would obey as escapes."""
    if text.isascii() and text.isprintable():
        return text
    shown, width = [], 0
    for char in text:
        if char == "\t":
            char = " " * (_TAB - width % _TAB)
        else:
            char = printable(char)
        shown.append(char)
        width += _char_width(char) if len(char) == 1 else len(char)
    return "".join(shown)


def _width(text: str) -> int:
    """Columns that ``display(text)`` takes up in a terminal."""
    shown = display(text)
    return len(shown) if shown.isascii() else sum(map(_char_width, shown))


def _char_width(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


# -- fixes -------------------------------------------------------------------------------------------------------------


def preview(fix: Fix, path: Path, span: Span, source_of: SourceOf, most: int) -> list[Line]:
    """Return what ``fix`` changes, the file ``path`` first; empty if it only advises. Of a long one, the part is shown
    that has the change nearest to ``span``, which is what the finding is about."""
    hunks: list[list[Line]] = []
    nearest, least = 0, float("inf")
    files = by_file([fix])
    for changed in sorted(files, key=lambda one: (one != path, str(one))):
        header = [Line(None, "file", str(changed))] if changed != path else []
        for cell, edits in files[changed].items():
            for hunk in _hunks(source_of(changed, cell), edits, most):
                if changed == path and cell == span.cell:
                    away = min(
                        (abs(line.number - span.line) for line in hunk if line.number is not None), default=least
                    )
                    nearest, least = (len(hunks), away) if away < least else (nearest, least)
                hunks.append(header + hunk)
                header = []
    hunks += [[Line(len(new.text.splitlines()), "file", str(new.path))] for new in fix.files]
    return _shortened(hunks, nearest)


def _shortened(hunks: Sequence[list[Line]], nearest: int) -> list[Line]:
    """Return the lines of ``hunks``, of too many only some: from the start if they reach the hunk ``nearest``, else
    that one with as many of its neighbours as there is room for."""
    ends = [*accumulate(map(len, hunks), initial=0)]
    lines = [line for hunk in hunks for line in hunk]
    if len(lines) <= MAX_DIFF + 1:
        return lines
    first = 0
    if ends[nearest + 1] > MAX_DIFF:
        first = next(one for one in ends if min(ends[nearest + 1], ends[nearest] + MAX_DIFF) - one <= MAX_DIFF)
    if first > 0 and lines[first].kind == "gap":
        first += 1
    shown = lines[first : first + MAX_DIFF]
    hidden = len(lines) - first - len(shown)
    above = [Line(None, "gap", f"... {counted(first, 'more line')} above")] if first else []
    if hidden == 1:
        return [*above, *lines[first:]]
    below = [Line(None, "gap", f"... {hidden} more lines; gpulint fix --diff shows all")] if hidden else []
    return [*above, *shown, *below]


def _hunks(source: SourceText, edits: Sequence[Edit], most: int) -> Iterator[list[Line]]:
    """Yield changed lines; those that do not touch apart, each but the first after a gap."""
    ordered = sorted(edits, key=lambda edit: (edit.span.line, edit.span.column))
    ends: list[int] = []
    for number, edit in enumerate(ordered):
        ends.append(edit.span.end_line if not number else max(ends[-1], edit.span.end_line))
    # A group ends where the next edit starts below all lines before it.
    marks = [0]
    for number in range(1, len(ordered)):
        marks.append(marks[-1] + (ordered[number].span.line > ends[number - 1] + 1))
    for group, members in groupby(range(len(ordered)), key=marks.__getitem__):
        if hunk := [*_hunk(source, [ordered[number] for number in members], most)]:
            yield [Line(None, "gap", "..."), *hunk] if group else hunk


def _hunk(source: SourceText, edits: Sequence[Edit], most: int) -> Iterator[Line]:
    first, last = edits[0].span.line, max(edit.span.end_line for edit in edits)
    start, end = source.offset(first, 1), source.offset(last + 1, 1)
    moved = [
        replace(edit, span=replace(edit.span, line=edit.span.line - first + 1, end_line=edit.span.end_line - first + 1))
        for edit in edits
    ]
    before = source.text[start:end]
    try:
        after = apply(before, moved)
    except ValueError:  # a span beyond the text: the fix engine refuses it
        return
    old, new = before.splitlines(), after.splitlines()
    same = next(
        (at for at, (one, two) in enumerate(zip(old, new, strict=False)) if one != two), min(len(old), len(new))
    )
    old, new, first = old[same:], new[same:], first + same
    while old and new and old[-1] == new[-1]:
        old, new = old[:-1], new[:-1]
    above, below = _neighbours(source, first, new) if not old else ([], [])
    yield from (Line(number, "code", _shown(source.line(number), most)) for number in above)
    for kind, at, text in _changed(old, new):
        yield Line(None if kind == "+" else first + at, kind, _shown(text, most))
    yield from (Line(number, "code", _shown(source.line(number), most)) for number in below)


def _changed(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[str, int, str]]:
    """Yield the lines of a change: what goes, what comes, and what stays between them, with the index in ``old``."""
    if len(old) * len(new) > MAX_COMPARED:
        yield from (("-", at, text) for at, text in enumerate(old))
        yield from (("+", 0, text) for text in new)
        return
    for _, start, end, low, high in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if old[start:end] == new[low:high]:
            yield from (("code", at, old[at]) for at in range(start, end))
            continue
        yield from (("-", at, old[at]) for at in range(start, end))
        yield from (("+", 0, text) for text in new[low:high])


def _neighbours(source: SourceText, first: int, new: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return the lines around the inserted ``new`` that say where it goes: the one above; the one below where there is
    nothing above or only the end of a deeper block, as above a decorator."""
    above, below = source.line(first - 1), source.line(first)
    deeper = _indent(above) > min(map(_indent, filter(str.strip, new)), default=0)
    after = [first] if below.strip() and (deeper or not above.strip()) else []
    if above.strip() and not (deeper and after):
        return [first - 1], after
    return ([], after) if after else ([*islice(_filled_above(source, first), 1)], [])


def _filled_above(source: SourceText, first: int) -> Iterator[int]:
    """Yield the lines above ``first`` that are not blank, the nearest first."""
    return (number for number in range(first - 1, 0, -1) if source.line(number).strip())


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def _shown(text: str, most: int) -> str:
    return display(_cut(text, most)).rstrip()


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."
