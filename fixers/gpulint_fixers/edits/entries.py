"""Edits that take out entries of YAML files and of Dockerfiles' ENV instructions."""

from __future__ import annotations

from pathlib import Path

from gpulint import regex
from gpulint.fix import Edit
from gpulint.source import SourceText, Span

_KEY = regex.compile(r"[\w.\"'-]+:\s*(#.*)?$")


def remove_entry(path: Path, source: SourceText, span: Span) -> Edit | None:
    """Remove a list item or a ``key: value`` that has its lines to itself; None if it has not.

    The key above goes as well if the entry is all that it has: some readers refuse an empty mapping.
    """
    line, last = source.line(span.line), source.line(span.end_line)
    before, after = line[: span.column - 1], last[span.end_column - 1 :].strip().strip("\"'")
    if span.cell is not None or before.strip() not in ("", "-", '- "', "- '") or after:
        return None
    indent = len(line) - len(line.lstrip())
    is_item = line.lstrip().startswith("- ")
    above, below = _neighbour(source, span.line, -1), _neighbour(source, span.end_line, 1)
    if any(_is_sibling(source.line(number), indent, is_item) for number in _around(source, span)):
        return Edit(path, Span(span.line, 1, span.end_line + 1, 1), "")
    if above != span.line - 1 or not _KEY.fullmatch(source.line(above).strip().removeprefix("- ")):
        return None
    if source.line(above).lstrip().startswith("- ") or _indent(source.line(below)) > indent:
        return None
    return Edit(path, Span(above, 1, span.end_line + 1, 1), "")


_BLOCK = regex.compile(r"(\s*)[\w.-]+:\s*[|>][-+\d]*\s*(#.*)?$")


def remove_block(path: Path, source: SourceText, line: int, lines: set[int]) -> Edit | None:
    """Remove a key whose block of text (``setup: |``) is around ``line`` and has nothing but ``lines``; else None."""
    first = line - 1
    while first > 0 and (not source.line(first).strip() or _indent(source.line(first)) >= _indent(source.line(line))):
        first -= 1
    key, last = _BLOCK.fullmatch(source.line(first)), line
    if key is None:
        return None
    while last < len(source.line_starts) and (
        not source.line(last + 1).strip() or _indent(source.line(last + 1)) > len(key[1])
    ):
        last += 1
    body = [number for number in range(first + 1, last + 1) if source.line(number).strip()]
    if not all(number in lines or source.line(number).lstrip().startswith("#") for number in body):
        return None
    around = (_neighbour(source, first, -1), _neighbour(source, last, 1))
    if not any(_is_sibling(source.line(number), len(key[1]), False) for number in around) and len(key[1]):
        return None
    return Edit(path, Span(first, 1, last + 1, 1), "")


def remove_variable(path: Path, source: SourceText, span: Span) -> Edit | None:
    """Remove ``NAME=value`` from an ENV instruction, the whole instruction if it sets nothing else; None if shared."""
    if span.line != span.end_line:
        return None
    line = source.line(span.line)
    before, after = line[: span.column - 1], line[span.end_column - 1 :]
    if after.strip() not in ("", "\\") and after[:1].isspace():
        gap = len(after) - len(after.lstrip())
        return Edit(path, Span(span.line, span.column, span.line, span.end_column + gap), "")
    if before.strip().upper() == "ENV" and not after.strip():
        return Edit(path, Span(span.line, 1, span.line + 1, 1), "")
    if not before.strip() and after.strip() == "\\":
        return Edit(path, Span(span.line, 1, span.line + 1, 1), "")
    if before.strip().upper() != "ENV" and before.strip() and not after.strip():
        return Edit(path, Span(span.line, len(before.rstrip()) + 1, span.line, span.end_column), "")
    return None


def _around(source: SourceText, span: Span) -> list[int]:
    """The nearest lines on either side that are not indented deeper than the entry."""
    indent = _indent(source.line(span.line))
    found = []
    for at, step in ((span.line, -1), (span.end_line, 1)):
        number = _neighbour(source, at, step)
        while 0 < number <= len(source.line_starts) and _indent(source.line(number)) > indent:
            number = _neighbour(source, number, step)
        found.append(number)
    return found


def _neighbour(source: SourceText, number: int, step: int) -> int:
    """The next line in a direction that holds more than a comment."""
    number += step
    while 0 < number <= len(source.line_starts) and source.line(number).strip()[:1] in ("", "#"):
        number += step
    return number


def _is_sibling(line: str, indent: int, is_item: bool) -> bool:
    return bool(line.strip()) and _indent(line) == indent and line.lstrip().startswith("- ") == is_item


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
