"""Unused suppression.

What it detects
    A ``# gpulint: ignore[...]`` comment, or one code in it, that hides no finding of the rules that ran.

Why it costs GPU time
    It does not by itself. A suppression that outlived its finding hides the next one at that place.

When it is right not to change
    A comment that is only needed for other versions of the file, for example in generated code.

Fix safety
    Advice: take the comment out.

References
    Reported with ``gpulint scan --report-unused-ignores`` only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpulint.comments import Comment, comments
from gpulint.finding import Finding, Severity
from gpulint.rule import Category, Dimension, Kind, Rule
from gpulint.source import SourceText, Span

if TYPE_CHECKING:
    from gpulint.documents import Document

UNUSED_IGNORE = Rule(
    code="GPU900",
    name="unused-ignore",
    # Not one of the study's issues; the metadata asks for a category and this is the nearest.
    category=Category.API_MISUSE,
    dimension=Dimension.LIBRARY,
    severity=Severity.WARNING,
    kinds=frozenset(Kind),
    summary="A suppression comment that hides no finding",
    why="A suppression that outlived its finding hides the next one at that place.",
    evidence=(),
    check=lambda document, project: iter(()),
    default=False,
)

HEREDOC = re.compile(r"""(?<!<)<<-?[ \t]*(['"]?)([A-Za-z_]\w*)\1(?![<\w])""")
_COMMENT = re.compile(r"#\s*gpulint:\s*(ignore-file|ignore)(?![\w-])\s*(?:\[([^\]]*)\])?", re.IGNORECASE)


@dataclass
class _Ignore:
    """One suppression comment; ``codes`` are codes or names as written, empty for "everything"."""

    span: Span
    whole_file: bool
    codes: tuple[str, ...]
    lines: frozenset[int]
    used: set[str] = field(default_factory=set)

    def covers(self, finding: Finding) -> bool:
        if not self.whole_file:
            place = finding.span
            if place.cell != self.span.cell or not self.lines & {place.line, _last_line(place)}:
                return False
        rule = finding.rule
        names = {code for code in self.codes if code.upper() == rule.code or code.lower() == rule.name}
        if not self.codes:
            names = {""}
        self.used |= names
        return bool(names)


class Suppressions:
    """The suppression comments of one document; empty (and false) if it has none."""

    def __init__(self, document: Document) -> None:
        self._path = document.path
        self._ignores = list(_read(document))

    def __bool__(self) -> bool:
        return bool(self._ignores)

    def covers(self, finding: Finding) -> bool:
        """Whether a comment hides ``finding``. Every comment that does so counts as used."""
        return sum(ignore.covers(finding) for ignore in self._ignores) > 0

    def unused(self, rules: Sequence[Rule]) -> Iterator[Finding]:
        """Comments, and codes in them, that hid nothing so far; what ``rules`` did not look for is left alone."""
        active = {rule.code for rule in rules} | {rule.name for rule in rules}
        for ignore in self._ignores:
            if not ignore.codes and not ignore.used:
                yield self._unused(ignore, "suppression hides no finding")
            for code in ignore.codes:
                if code not in ignore.used and {code.upper(), code.lower()} & active:
                    yield self._unused(ignore, f"suppression of {code} hides no finding")

    def _unused(self, ignore: _Ignore, message: str) -> Finding:
        return UNUSED_IGNORE.finding(
            self._path, ignore.span, message, help="Remove the comment, or the code from its list."
        )


def _last_line(span: Span) -> int:
    """The last line with text of a span; an end at column 1 belongs to the line before."""
    return span.end_line - 1 if span.end_column == 1 and span.end_line > span.line else span.end_line


def _read(document: Document) -> Iterable[_Ignore]:
    for comment in comments(document):
        match = _COMMENT.search(comment.text)
        if match is None:
            continue
        codes = tuple(word.strip() for word in (match.group(2) or "").split(",") if word.strip())
        if match.group(2) is not None and not codes:
            continue
        whole_file = match.group(1).lower() == "ignore-file"
        yield _Ignore(comment.span, whole_file, codes, frozenset(_lines(comment, document)))


def _lines(comment: Comment, document: Document) -> Iterator[int]:
    """The lines that a comment speaks of: its own, or if it stands alone, the next one.

    No comment can follow a backslash or stand in a here-document, so one above a command speaks of all its lines.
    """
    line = comment.span.line
    yield line
    if not comment.alone:
        return
    source = document.cell_source(comment.span.cell)
    yield line + 1
    first = line + 1
    while source.line(line + 1).endswith("\\"):
        line += 1
        yield line + 1
    if document.kind is not Kind.PYTHON:
        for number in range(first, line + 2):
            for opening in HEREDOC.finditer(source.line(number)):
                yield from _heredoc(source, line + 2, opening[2])


def _heredoc(source: SourceText, line: int, terminator: str) -> Iterator[int]:
    """The lines of a here-document from ``line`` on; none if it is never closed, as then it is none."""
    for last in range(line, len(source.line_starts) + 1):
        if source.line(last).strip() == terminator:
            yield from range(line, last)
            return
