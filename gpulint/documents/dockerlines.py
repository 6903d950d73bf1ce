"""A Dockerfile's instructions: parser directives, continuations, comments within them, heredocs."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from gpulint import regex
from gpulint.records import dataclass
from gpulint.source import Fragment, SourceText

_DIRECTIVE = regex.compile(r"#\s*([a-zA-Z]+)\s*=\s*(\S+)\s*$")
_INSTRUCTION = regex.compile(r"\s*([A-Za-z]+)(?:\s+|$)")
_HEREDOC = regex.compile(r"""(?<![<\w])<<(-?)(['"]?)([A-Za-z_][\w.]*)\2(?![\w<])""")
_QUOTED = regex.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.""", re.DOTALL)
_WITH_HEREDOCS = frozenset({"RUN", "COPY", "ADD"})


@dataclass(frozen=True, slots=True)
class Heredoc:
    """A here-document: its body without the terminator line."""

    name: str
    body: Fragment
    start: int
    """Offset of ``<<`` in the instruction's ``arguments``."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction. ``arguments`` keep continuations as backslash and line break (valid shell), no comment lines."""

    name: str
    arguments: Fragment
    heredocs: tuple[Heredoc, ...]
    start: int
    end: int
    """Character offsets in the file, heredocs included."""
    whole: Fragment
    """``arguments`` and, after a line break, the heredocs with their terminators: what a shell would be given."""


class _Builder:
    """Text put together from stretches of the file."""

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.parts: list[str] = []
        self.pieces: list[tuple[int, int]] = []
        self.length = 0

    def add(self, text: str, offset: int) -> None:
        if text:
            self.pieces.append((self.length, offset))
            self.parts.append(text)
            self.length += len(text)

    def fragment(self, start: int = 0) -> Fragment:
        full = Fragment("".join(self.parts), self.source, tuple(self.pieces) or ((0, 0),))
        return full.cut(start, len(full.text))


def instructions(source: SourceText) -> Iterator[Instruction]:
    """The file's instructions in order; text that is none (a stray word) comes as an instruction of that name."""
    lines = _physical_lines(source)
    escape = _escape(lines)
    number = 0
    while number < len(lines):
        text, start = lines[number]
        if not text.strip() or text.lstrip().startswith("#"):
            number += 1
            continue
        builder = _Builder(source)
        continued = re.compile(re.escape(escape) + r"[ \t]*$")
        while number < len(lines):
            text, offset = lines[number]
            number += 1
            if builder.parts and (not text.strip() or text.lstrip().startswith("#")):
                continue
            match = continued.search(text)
            if match is None:
                builder.add(text, offset)
                break
            builder.add(text[: match.start()], offset)
            builder.add("\\", offset + match.start())
            builder.add("\n", offset + len(text))
        line = builder.fragment()
        head = _INSTRUCTION.match(line.text)
        name = head[1].upper() if head else line.text.split(None, 1)[0]
        begin = head.end() if head else len(line.text)
        if name == "ONBUILD" and head and (inner := _INSTRUCTION.match(line.text, begin)):
            name, begin = inner[1].upper(), inner.end()
        arguments = builder.fragment(begin)
        heredocs: list[Heredoc] = []
        if name in _WITH_HEREDOCS:
            for dash, terminator, at in _openings(arguments.text):
                number, body = _read_heredoc(lines, number, terminator, bool(dash), builder)
                heredocs.append(Heredoc(terminator, body, at))
        last, last_start = lines[number - 1]
        yield Instruction(name, arguments, tuple(heredocs), start, last_start + len(last), builder.fragment(begin))


def _physical_lines(source: SourceText) -> list[tuple[str, int]]:
    starts = source.line_starts
    ends = [*starts[1:], len(source.text)]
    return [(source.text[start:end].rstrip("\r\n"), start) for start, end in zip(starts, ends, strict=True)]


def _escape(lines: list[tuple[str, int]]) -> str:
    """The escape character: ``# escape=`` among the directives that open the file."""
    for text, _ in lines:
        match = _DIRECTIVE.match(text.strip())
        if match is None:
            return "\\"
        if match[1].lower() == "escape" and match[2] in "\\`":
            return match[2]
    return "\\"


def _openings(text: str) -> list[tuple[str, str, int]]:
    """(dash, terminator, offset) of each heredoc operator outside quotes."""
    quotes = [match.span() for match in _QUOTED.finditer(text)]
    return [
        (match[1], match[3], match.start()) for match in _HEREDOC.finditer(text) if not _within(match.start(), quotes)
    ]


def _within(at: int, stretches: list[tuple[int, int]]) -> bool:
    number = bisect_right(stretches, at, key=lambda stretch: stretch[0])
    return number > 0 and at < stretches[number - 1][1]


def _read_heredoc(
    lines: list[tuple[str, int]], number: int, terminator: str, tabs: bool, whole: _Builder
) -> tuple[int, Fragment]:
    """Body from line ``number`` on, also added to ``whole``; an unclosed heredoc runs to the end of the file."""
    body = _Builder(whole.source)
    whole.add("\n", max(lines[number - 1][1] + len(lines[number - 1][0]), 0))
    while number < len(lines):
        text, offset = lines[number]
        number += 1
        stripped = text.lstrip("\t") if tabs else text
        whole.add(stripped, offset + len(text) - len(stripped))
        if stripped == terminator:
            break
        body.add(stripped, offset + len(text) - len(stripped))
        body.add("\n", offset + len(text))
        whole.add("\n", offset + len(text))
    return number, body.fragment()
