"""A batch script as pieces: whole lines that hold one or more complete commands of its top level."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TypeVar

from gpulint.documents import Document
from gpulint.documents.shell import Block, Command, Script
from gpulint.documents.shell.script import Assignment
from gpulint.records import dataclass
from gpulint.source import SourceText, Span

_Located = TypeVar("_Located", Command, Assignment)


@dataclass(frozen=True, eq=False)
class Piece:
    """Lines ``first`` to ``last`` of a script, with the commands and assignments on them."""

    source: SourceText
    first: int
    last: int
    commands: tuple[Command, ...]
    assignments: tuple[Assignment, ...]
    functions: tuple[str, ...] = ()
    """Names of the functions that it defines."""

    @cached_property
    def text(self) -> str:
        """The lines, the last one with its line ending."""
        lines = [self.source.line(number) for number in range(self.first, self.last + 1)]
        return "\n".join(lines) + "\n"

    @cached_property
    def comments(self) -> str:
        """The comment lines right above, unless they are the head of the file."""
        lines = list[str]()
        number = self.first - 1
        while (line := self.source.line(number).strip()).startswith("#") and not is_directive(line):
            lines.insert(0, self.source.line(number))
            number -= 1
        is_head = number == 0 or (number == 1 and self.source.line(1).startswith("#!"))
        return "" if is_head else "".join(f"{line}\n" for line in lines)

    @property
    def start(self) -> int:
        """The first line, comments right above included."""
        return self.first - self.comments.count("\n")

    def uses(self, name: str) -> bool:
        """Return whether the text expands a variable."""
        return re.search(rf"\$\{{?[#!]?{re.escape(name)}\b", self.text) is not None


def is_directive(line: str) -> bool:
    """Return whether a comment line is one that a shell, a scheduler or a tool reads."""
    return re.match(r"#!|#(SBATCH|PBS|BSUB|\$)|#\s*shellcheck", line) is not None


def pieces(document: Document) -> list[Piece] | None:
    """The pieces of a script file in order; None if some line could not be attributed to one."""
    (script,) = document.scripts
    if script.problems or script.cut is not None or "\r" in document.source.text:
        return None
    source = document.source
    merged = list[tuple[int, int]]()
    for first, last in sorted(_regions(script, source)):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    at = {number: place for place, (first, last) in enumerate(merged) for number in range(first, last + 1)}
    for number in range(1, len(source.line_starts) + 1):
        line = source.line(number).strip()
        if line and not line.startswith("#") and number not in at:
            return None
    commands, assignments = _by_place(at, script.commands), _by_place(at, script.assignments)
    functions = defaultdict[int, list[str]](list)
    for name, span in script.functions.items():
        functions[at[span.line]].append(name)
    return [
        Piece(source, first, last, tuple(commands[place]), tuple(assignments[place]), tuple(functions[place]))
        for place, (first, last) in enumerate(merged)
    ]


def _by_place(at: Mapping[int, int], items: Iterable[_Located]) -> defaultdict[int, list[_Located]]:
    """Return the items of each piece, by the piece's place in the script."""
    found = defaultdict[int, list[_Located]](list)
    for item in items:
        found[at[item.span.line]].append(item)
    return found


def _regions(script: Script, source: SourceText) -> Iterator[tuple[int, int]]:
    """Lines that belong together, overlapping ones included."""
    for command in script.commands:
        yield _lines([command.span], command.blocks)
        if command.heredoc is not None:
            end = command.heredoc.owner_offset(len(command.heredoc.text))
            yield command.span.line, max(command.span.end_line, source.position(end)[0])
    for item in script.assignments:
        yield _lines([item.span], item.blocks)
    for span in script.functions.values():
        yield span.line, span.end_line


def _lines(spans: Iterable[Span], blocks: Iterable[Block]) -> tuple[int, int]:
    known = [*spans, *(block.span for block in blocks)]
    return min(span.line for span in known), max(span.end_line for span in known)
