"""What the walk finds, before it becomes a ``Script``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.shell.script import Assignment, Block, Command, Comment, Directive
from gpulint.documents.shell.simple import Simple
from gpulint.documents.shell.words import RawAssignment, Variable, Word
from gpulint.source import Fragment

if TYPE_CHECKING:
    from tree_sitter import Node

_DIRECTIVE = regex.compile(r"(#SBATCH|#PBS|#BSUB|#\$|#(?:[A-Z]{2,12}|flux):?(?=\s+-))(?=\s|$|(?<=\$)-)\s*(.*)")


class Recorder:
    """Collects the commands (by where they start) and assignments of one fragment."""

    def __init__(self, fragment: Fragment) -> None:
        self.fragment = fragment
        self.commands: dict[int, Command] = {}
        self.assignments: list[Assignment] = []

    def command(
        self,
        simple: Simple,
        start: int,
        blocks: tuple[Block, ...],
        background: bool,
        negated: bool,
        heredoc: Fragment | None,
    ) -> None:
        prefix = bool(simple.words)
        own = tuple(self.assignment(raw, blocks, prefix=prefix) for raw in simple.assignments)
        if not prefix:
            self.assignments += own
            return
        first = simple.words[0].value
        for raw in simple.declared:
            exported, local = first == "export", first == "local"
            self.assignments.append(self.assignment(raw, blocks, exported=exported, local=local))
        command = Command(
            self.fragment,
            start,
            simple.words[-1].end,
            simple.words,
            own,
            simple.redirects,
            heredoc,
            blocks,
            background,
            negated,
        )
        self.commands.setdefault(start, command)
        self.side_effects(command, first)

    def rest(self, start: int, blocks: tuple[Block, ...]) -> None:
        """A command of which nothing is known, for all that is not read from ``start`` on."""
        word = Word(self.fragment, start, start, (Variable("", "...", start, "?"),))
        self.commands.setdefault(start, Command(self.fragment, start, start, (word,), blocks=blocks))

    def side_effects(self, command: Command, first: str | None) -> None:
        """Assignments that builtins make: ``read``, ``unset``, ``let``, ``printf -v`` and ``: ${A:=b}``."""
        words = [word.value for word in command.words[1:]]
        names = list[str]()
        if first in ("read", "mapfile", "readarray", "getopts", "unset", "let"):
            names = [match[0] for value in words if value and (match := re.match(r"[A-Za-z_]\w*", value))]
        elif first == "printf" and words[:1] == ["-v"] and len(words) > 1 and words[1]:
            names = [words[1]]
        for name in names:
            self.unknown(name, command.start, command.end, command.blocks, unset=first == "unset")
        for word in command.words if first == ":" else ():
            if match := re.fullmatch(r"\$\{([A-Za-z_]\w*):?=.*\}", word.raw.strip('"'), re.S):
                self.assignments.append(
                    Assignment(match[1], self.fragment, command.start, command.end, value=word, blocks=command.blocks)
                )

    def unknown(self, name: str, start: int, end: int, blocks: tuple[Block, ...], *, unset: bool = False) -> None:
        self.assignments.append(Assignment(name, self.fragment, start, end, unset=unset, blocks=blocks))

    def assignment(
        self,
        raw: RawAssignment,
        blocks: tuple[Block, ...],
        *,
        prefix: bool = False,
        exported: bool = False,
        local: bool = False,
    ) -> Assignment:
        value, elements = (None, None) if raw.indexed else (raw.value, raw.elements)
        place = self.fragment, raw.start, raw.end
        return Assignment(raw.name, *place, value, elements, None, raw.append, exported, local, prefix, blocks=blocks)


def is_switched_off(blocks: tuple[Block, ...]) -> bool:
    """Return whether something stands in a branch that is switched off: ``if false; then``."""
    return any(block.kind == "if" and block.text == "false" for block in blocks)


def end_of_run(commands: Sequence[Command]) -> int | None:
    """Return where a script ends for good before its last line, None if it does not: at an ``exit`` that is under no
    condition, or at a program that takes the place of the shell (``exec python train.py``)."""
    for command in commands:
        name = command.words[0].value
        ends = name == "exit" or (name == "exec" and len(command.words) > 1)
        if ends and not command.blocks and not command.background:
            return command.start
    return None


def read_comments(
    fragment: Fragment, text: str, places: list[tuple[int, int]], first: int
) -> tuple[tuple[Comment, ...], tuple[Directive, ...]]:
    """Comments, and the scheduler directives among them; ``first`` is where the first command begins."""
    comments, directives = list[Comment](), list[Directive]()
    for start, end in sorted(set(places)):
        comment, span = text[start:end].rstrip(), fragment.span(start, end)
        comments.append(Comment(comment, span))
        line_start = start == 0 or text[start - 1] == "\n"
        if line_start and (match := _DIRECTIVE.match(comment)):
            directives.append(Directive(match[1], match[2], span, start + match.start(2), start < first))
    return tuple(comments), tuple(directives)


def followed(nodes: Sequence[Node]) -> list[tuple[Node, bool]]:
    """Each node of a row with whether ``&`` comes next. (tree-sitter looks for siblings and parents from the root.)"""
    following = [*(node.type == "&" for node in nodes[1:]), False]
    return list(zip(nodes, following, strict=False))
