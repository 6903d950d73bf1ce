"""The document: one file, decoded, with whatever syntax trees its kind has, each built once on demand."""

from __future__ import annotations

import codecs
import re
from bisect import bisect_right
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.budget import too_long
from gpulint.finding import Problem
from gpulint.rule import Kind
from gpulint.source import SourceText, Span

if TYPE_CHECKING:
    from gpulint.documents.python import PythonModule
    from gpulint.documents.shell import Script
    from gpulint.documents.tasks import Task

_CODING = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")


class Unreadable(Exception):
    """A file that holds no text gpulint can read; the message says why."""


def decode(data: bytes) -> tuple[str, str]:
    """Text and codec name of a file: BOM first, then a PEP 263 cookie, then UTF-8, last Latin-1 if nothing else fits.

    Raises:
        Unreadable: NUL bytes (binary data) or a cookie that names no known codec.
    """
    for bom, codec in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if data.startswith(bom):
            try:
                return data.decode(codec), codec
            except UnicodeDecodeError as error:
                raise Unreadable(f"not valid {codec} text: {error.reason}") from None
    if b"\0" in data:
        raise Unreadable("binary file (contains NUL bytes)")
    for line in data.split(b"\n", 2)[:2]:
        if cookie := _CODING.match(line):
            name = cookie.group(1).decode("ascii", "replace")
            try:
                return data.decode(codecs.lookup(name).name), name
            except LookupError:
                raise Unreadable(f"unknown encoding {name!r} declared") from None
            except UnicodeDecodeError as error:
                raise Unreadable(f"not valid {name} text: {error.reason} at byte {error.start}") from None
    try:
        return data.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        return data.decode("latin-1"), "latin-1"


class Document:
    """One file. Sub-classes (one per kind) override the trees that they have; nothing here raises on bad content."""

    kind: Kind

    def __init__(self, path: Path, text: str, encoding: str = "utf-8") -> None:
        self.path = path
        self.source = SourceText(text)
        self.encoding = encoding
        self.problems: list[Problem] = []
        self._matches: dict[re.Pattern[str], bool] = {}

    def problem(
        self,
        message: str,
        line: int | None = None,
        column: int | None = None,
        *,
        is_error: bool = True,
        cell: int | None = None,
    ) -> None:
        """Record why (part of) this document could not be read."""
        self.problems.append(Problem(self.path, message, line, column, is_error, cell))

    def note_long_values(self, scripts: Iterable[Script]) -> None:
        """Note the first variable of ``scripts`` whose value is too long to be followed."""
        for script in scripts:
            expander = script.expander()
            expander.settle()
            if expander.cut is not None:
                line = script.fragment.span(expander.cut, expander.cut).line
                self.problem(too_long("a variable", expander.longest), line, is_error=False)
                return

    @cached_property
    def python(self) -> PythonModule | None:
        """The Python module of a Python file or of a notebook's code cells."""
        return None

    @cached_property
    def scripts(self) -> tuple[Script, ...]:
        """All shell in the document: the file itself, ``%%bash`` cells, commands of a job spec, CMD of an image."""
        return ()

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """What the document launches, with the resources it asks for."""
        return ()

    @cached_property
    def optional_parts(self) -> tuple[tuple[int, int], ...]:
        """(start, end) of shell or YAML that a template writes only under a condition."""
        from gpulint.documents.templates import optional_parts

        return () if self.kind in (Kind.PYTHON, Kind.NOTEBOOK) else optional_parts(self.source.text)

    def is_optional(self, span: Span) -> bool:
        """Does a template write a place only under a condition, so that nobody can tell whether it is there?"""
        if not self.optional_parts:
            return False
        at = self.source.offset(span.line, span.column)
        last = bisect_right(self.optional_parts, at, key=lambda part: part[0]) - 1
        return last >= 0 and at < self.optional_parts[last][1]

    def matches(self, pattern: re.Pattern[str]) -> bool:
        """Whether a pattern is found in the text; each is looked for once, however many jobs the document has."""
        if pattern not in self._matches:
            self._matches[pattern] = pattern.search(self.source.text) is not None
        return self._matches[pattern]

    def cell_source(self, cell: int | None) -> SourceText:
        """The text that spans with this ``cell`` count in: of one cell in a notebook, else of the whole file."""
        return self.source
