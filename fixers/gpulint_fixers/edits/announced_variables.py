"""Lines of scripts that say how a variable is set: ``echo "CUDA_LAUNCH_BLOCKING set to 1"``. Without the setting they
would say what is false."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpulint import regex
from gpulint.documents.base import Document
from gpulint.finding import Place
from gpulint.fix import Edit
from gpulint.rule import Kind
from gpulint.source import Span
from gpulint_fixers.edits.statements import remove_lines

_SAYS = regex.compile(r"^[ \t]*(?:echo|printf)\b[^\n]*$")
_PRINTS = regex.compile(r"\b(?:echo|printf|print|info|debug|warning|log)\b[\s(]")
_STATE = regex.compile(
    r"=|\bset\b|\bsetting\b|\bon\b|\btrue\b|\bactive\b|\b(?:en|dis)abl\w+|\bturned\b|\bexport|\busing\b|\bwith\b|:",
    re.IGNORECASE,
)
_ADVISES = regex.compile(r"\b(?:if|when|unless|to debug|try|please|you|should|could)\b", re.IGNORECASE)
"""Words of texts that tell what a user could set."""
_DOES_MORE = regex.compile(r"[$`;|&<>]|\\$")
"""What gives the line an effect of its own, or a value that it reads, or goes on below."""
_OTHER = regex.compile(r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b")
_OPENS = regex.compile(r"(?:\b(?:then|do|else)|\{|\()\s*$")
_CLOSES = regex.compile(r"^\s*(?:fi|done|else|elif|\}|\)|;;)")


def with_announcements(document: Document, name: str, edit: Edit) -> tuple[list[Edit], tuple[int, ...]]:
    """Return the removals of lines that only say how a variable is set, if that is removed as a whole line, and the
    numbers of the other lines that say so, which stay."""
    found, left = list[Edit](), list[int]()
    for line, text in _announcing(document, name, edit.span):
        gone = _removal(document, name, edit, line, text) if document.kind is Kind.SHELL else None
        if gone is None or _empties_block(document, (edit, *found, gone)):
            left.append(line)
        else:
            found.append(gone)
    return found, tuple(left)


def _announcing(document: Document, name: str, span: Span) -> Iterator[tuple[int, str]]:
    """Yield the lines, with their numbers, that print a text with the variable's name and its state."""
    word = re.compile(rf"(?<![$\w{{]){re.escape(name)}\b")
    source = document.cell_source(span.cell)
    for found in word.finditer(source.text):
        line = source.position(found.start())[0]
        text = source.line(line)
        said = text[: found.start() - source.line_starts[line - 1]]
        if span.line <= line < max(span.end_line, span.line + 1) or said.lstrip().startswith("#"):
            continue
        if _PRINTS.search(said) and _STATE.search(text.replace(name, "", 1)) and not _ADVISES.search(text):
            yield line, text


def _removal(document: Document, name: str, edit: Edit, line: int, text: str) -> Edit | None:
    """Return the removal of a line that does nothing but to print a text about one variable, at the level of what sets
    it."""
    source = document.cell_source(edit.span.cell)
    others = {found for found in _OTHER.findall(text) if found != name}
    whole = not edit.text and edit.span.column == edit.span.end_column == 1
    if not whole or others or not _SAYS.match(text) or _DOES_MORE.search(text.rstrip()):
        return None
    if _indent(text) != _indent(source.line(edit.span.line)):
        return None
    return remove_lines(
        source, Place(edit.path, Span(line, _indent(text) + 1, line, len(text.rstrip()) + 1, edit.span.cell))
    )


def _empties_block(document: Document, edits: Sequence[Edit]) -> bool:
    """Return whether a block of the shell would be left without a command."""
    source = document.cell_source(edits[0].span.cell)
    gone = {line for edit in edits for line in range(edit.span.line, edit.span.end_line)}
    for line in gone:
        first, last = line - 1, line + 1
        while first > 1 and (first in gone or _is_nothing(source.line(first))):
            first -= 1
        while last < len(source.line_starts) and (last in gone or _is_nothing(source.line(last))):
            last += 1
        if _OPENS.search(source.line(first)) and _CLOSES.match(source.line(last)):
            return True
    return False


def _is_nothing(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
