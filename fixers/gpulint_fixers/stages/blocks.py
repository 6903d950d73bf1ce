"""Blocks of shell text in YAML files (``run: |``), read as scripts of their own."""

from __future__ import annotations

import re
from pathlib import Path

from gpulint.documents import Document
from gpulint.documents.shell import ShellDocument
from gpulint.records import dataclass
from gpulint.source import SourceText, Span

_OPENS = re.compile(r"[^#]*(?:^|[\s:-])\|[-+\d]*\s*(?:#.*)?$")


@dataclass(frozen=True, eq=False)
class ShellBlock:
    """A block's text as a script, and where its first line is in the file."""

    script: Document
    first: int
    indent: str

    def inner(self, span: Span) -> Span:
        """The place in the script of a place in the file."""
        at = len(self.indent)
        return Span(
            span.line - self.first + 1,
            max(span.column - at, 1),
            span.end_line - self.first + 1,
            max(span.end_column - at, 1),
        )

    def outer(self, line: int) -> int:
        """The line of the file of a line of the script."""
        return line + self.first - 1

    @property
    def text(self) -> str:
        """The script."""
        return self.script.source.text


def block_around(document: Document, line: int) -> ShellBlock | None:
    """The block of text that holds a line; None if that line is in no block whose lines are taken as they are."""
    source = document.source
    found = _lines_around(source, line)
    if found is None:
        return None
    first, last = found
    lines = [source.line(number) for number in range(first, last + 1)]
    indent = re.match(r"\s*", next(text for text in lines if text.strip()))[0]  # type: ignore[index]
    if any(text.strip() and not text.startswith(indent) for text in lines) or "\r" in source.text:
        return None
    text = "\n".join(text.removeprefix(indent).rstrip() if text.strip() else "" for text in lines) + "\n"
    return ShellBlock(ShellDocument(Path(f"{document.path.stem}.sh"), text), first, indent)


def _lines_around(source: SourceText, line: int) -> tuple[int, int] | None:
    """The first and last line of the block, by their indentation."""
    inner = _indent(source.line(line))
    head = line - 1
    while head > 0 and (not source.line(head).strip() or _indent(source.line(head)) >= inner):
        head -= 1
    # A deeper line of the script itself (of an ``if``) may be less indented than this one: go on to the block's head.
    while head > 0 and not _OPENS.fullmatch(source.line(head)):
        inner = _indent(source.line(head))
        head -= 1
        while head > 0 and (not source.line(head).strip() or _indent(source.line(head)) >= inner):
            head -= 1
    if head <= 0:
        return None
    outer, last = _indent(source.line(head)), line
    while last < len(source.line_starts) and (
        not source.line(last + 1).strip() or _indent(source.line(last + 1)) > outer
    ):
        last += 1
    while last > line and not source.line(last).strip():
        last -= 1
    return head + 1, last


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
