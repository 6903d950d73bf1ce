"""A command of several statements in one YAML scalar, however that is written: folded, quoted, or a block of lines."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from gpulint.documents import Document
from gpulint.documents.shell import ShellDocument, statements
from gpulint.documents.yamltree import Node
from gpulint.fix import Edit
from gpulint.records import dataclass
from gpulint.source import Span
from gpulint_fixers.stages.pieces import Piece


@dataclass(frozen=True, eq=False)
class Chain:
    """The statements of a command, and a script that has each of them on lines of its own (``a && b``)."""

    document: Document
    node: Node
    places: tuple[tuple[int, int], ...]
    """(start, end) of each statement in the scalar's value."""

    @property
    def texts(self) -> list[str]:
        """The statements."""
        return [self.node.value[start:end] for start, end in self.places]

    @cached_property
    def script(self) -> Document:
        """The statements one below the other."""
        return ShellDocument(Path(f"{self.document.path.stem}.sh"), "\n".join(self.texts) + "\n")

    @cached_property
    def _lines(self) -> list[int]:
        """The number of the first line of each statement in the script."""
        lines, at = [], 1
        for text in self.texts:
            lines.append(at)
            at += text.count("\n") + 1
        return lines

    def number(self, piece: Piece) -> int:
        """The number of the statement that a piece of the script begins with."""
        return max(at for at, line in enumerate(self._lines) if line <= piece.first)

    def numbers(self, pieces: list[Piece]) -> list[int]:
        """The numbers of all statements of pieces, in order."""
        found = {
            at
            for piece in pieces
            for at, line in enumerate(self._lines)
            if piece.first <= line <= piece.last or at == self.number(piece)
        }
        return sorted(found)

    def inner(self, span: Span) -> Span | None:
        """The place in the script of the command that starts where ``span`` does."""
        source, fragment = self.document.source, self.node.fragment
        wanted = source.offset(span.line, span.column)
        lengths = [len(text) + 1 for text in self.texts]
        for number, (start, end) in enumerate(self.places):
            at = next((at for at in range(start, end) if fragment.owner_offset(at) == wanted), None)
            if at is not None:
                line, column = self.script.source.position(sum(lengths[:number]) + at - start)
                found = (command.span for command in self.script.scripts[0].commands)
                return next((one for one in found if (one.line, one.column) == (line, column)), None)
        return None

    def without(self, numbers: list[int]) -> list[Edit]:
        """Edits that take statements out of the scalar, each with what joins it to the next one."""
        fragment, source = self.node.fragment, self.document.source
        edits = []
        for number in numbers:
            start, end = (fragment.owner_offset(self.places[at][0]) for at in (number, number + 1))
            edits.append(Edit(self.document.path, source.span(start, end), ""))
        return edits

    def replaced(self, start: int, end: int, text: str) -> Edit:
        """An edit of a stretch of the value that is written as it is."""
        first = self.node.fragment.owner_offset(start)
        return Edit(self.document.path, self.document.source.span(first, first + end - start), text)


def chain(document: Document, node: Node) -> Chain | None:
    """The statements of a command; None if it is not understood."""
    if node.kind != "scalar" or node.tag is not None or not node.value.strip():
        return None
    places = statements(node.value)
    return Chain(document, node, tuple(places)) if places else None
