"""Text with exact places: spans, line tables and maps from an embedded fragment back to its file.

Three column units meet here. Python's ``ast`` counts UTF-8 bytes, editors count UTF-16 units, and people count
characters. Inside gpulint a column is always **1-based characters**, and offsets are 0-based characters; whoever
reads or writes another unit converts at the border.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate

from gpulint.recent import Recent
from gpulint.records import dataclass, field


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A stretch of a document, 1-based, end column exclusive.

    ``cell`` is the 0-based index of the notebook cell (among all cells) and lines then count within that cell; it is
    None in every other kind of document.
    """

    line: int
    column: int
    end_line: int
    end_column: int
    cell: int | None = None

    @property
    def words(self) -> str:
        """``line 12``, or ``cell 4, line 12`` of a notebook."""
        return f"line {self.line}" if self.cell is None else f"cell {self.cell}, line {self.line}"

    @property
    def mark(self) -> str:
        """What comes after a path and a colon: ``12``, or ``cell 4:12`` of a notebook."""
        return f"{self.line}" if self.cell is None else f"cell {self.cell}:{self.line}"


def in_words(spans: Sequence[Span], more: int = 0) -> str:
    """``line 3``, ``lines 3, 4 and 2 more``, or ``cell 4, line 3 and cell 6, lines 2 and 5``."""
    cells = dict[int | None, list[str]]()
    for one in spans:
        cells.setdefault(one.cell, []).append(f"{one.line}")
    said, left = list[str](), len(spans)
    for cell, lines in cells.items():
        left -= len(lines)
        further = 0 if left else more
        where = "" if cell is None else f"cell {cell}, "
        said.append(f"{where}line{'s' if len(lines) + further > 1 else ''} {joined(lines, further)}")
    return joined(said)


def joined(names: Sequence[str], more: int = 0) -> str:
    """``3, 4 and 5``, or ``3, 4 and 2 more``."""
    listed = [*names, f"{more} more"] if more else [*names]
    return " and ".join([", ".join(listed[:-1]), listed[-1]] if len(listed) > 1 else listed)


_DECODED = Recent(32)
"""Texts that are kept as bytes and were decoded last."""


class SourceText:
    """Decoded text with a line table. Lines end at ``\\n``, ``\\r\\n`` or ``\\r`` as Python's own reader has it."""

    def __init__(self, text: str) -> None:
        self._text: str | None = text
        self._data: bytes | None = None
        self.size = len(text)
        """Characters."""

    @property
    def text(self) -> str:
        """All of it."""
        text = self._text
        if text is None:
            assert self._data is not None
            text = self._text = self._data.decode("utf-8")
            _DECODED.add(self)
        return text

    def decode_from(self, data: bytes) -> None:
        """Keep the text as ``data``, which are its bytes in UTF-8, and decode it when it is needed."""
        self._data = data
        _DECODED.add(self)

    def release(self) -> None:
        """Drop the decoded text."""
        self._text = None

    @cached_property
    def dollars(self) -> int:
        """How many dollar signs it has: places that may expand a variable of a shell."""
        return self.text.count("$")

    @cached_property
    def width(self) -> int:
        """Characters of the longest line."""
        return max(map(len, self.text.splitlines()), default=0)

    @cached_property
    def line_starts(self) -> Sequence[int]:
        """Offset of the first character of every line."""
        text = self.text
        if "\r" not in text:
            sizes = (len(line) + 1 for line in text.split("\n")[:-1])
            return array("I", accumulate(sizes, initial=0))
        starts = array("I", [0])
        for index, char in enumerate(text):
            if char == "\n" or (char == "\r" and text[index + 1 : index + 2] != "\n"):
                starts.append(index + 1)
        return starts

    @cached_property
    def line_break(self) -> str:
        """The line ending for new lines."""
        return "\r\n" if "\r\n" in self.text else "\n"

    def line(self, number: int) -> str:
        """Text of 1-based line ``number`` without its line ending; empty past the end."""
        starts = self.line_starts
        if not 1 <= number <= len(starts):
            return ""
        end = starts[number] if number < len(starts) else self.size
        return self.text[starts[number - 1] : end].rstrip("\r\n")

    def position(self, offset: int) -> tuple[int, int]:
        """(line, column), both 1-based, of a character offset."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def offset(self, line: int, column: int) -> int:
        """Character offset of a 1-based line and column, clamped to the text."""
        starts = self.line_starts
        if line > len(starts):
            return self.size
        return min(starts[line - 1] + column - 1, self.size)

    def span(self, start: int, end: int) -> Span:
        """Span of the characters ``start:end``."""
        return Span(*self.position(start), *self.position(end))

    def byte_column(self, line: int, byte_offset: int) -> int:
        """1-based character column of a 0-based UTF-8 byte offset in ``line`` (the unit of ``ast`` nodes)."""
        if self._is_ascii:
            return byte_offset + 1
        ends = self._byte_ends.get(line)
        if ends is None:
            # Made once for a line, of which a generated file may have a single one.
            sizes = (len(char.encode("utf-8", "surrogatepass")) for char in self.line(line))
            ends = self._byte_ends[line] = array("L", accumulate(sizes))
        return bisect_right(ends, byte_offset) + 1

    @cached_property
    def _is_ascii(self) -> bool:
        return self.text.isascii() if self._data is None else self._data.isascii()

    @cached_property
    def _byte_ends(self) -> dict[int, array[int]]:
        """Lines -> where each of their characters ends in UTF-8."""
        return {}


@dataclass(frozen=True)
class Fragment:
    """Text embedded in a document (a shell command in YAML, a notebook cell), with its way back.

    ``pieces`` lists (offset in ``text``, offset in ``owner``) break points in rising order: between two break
    points the fragment and its owner run in step. An escape or a folded line simply starts a new piece.
    """

    text: str
    owner: SourceText
    pieces: tuple[tuple[int, int], ...] = ((0, 0),)
    cell: int | None = None
    _starts: list[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_starts", [piece[0] for piece in self.pieces])

    def owner_offset(self, offset: int) -> int:
        """Offset in the owner of an offset in the fragment."""
        index = max(bisect_right(self._starts, offset) - 1, 0)
        here, there = self.pieces[index]
        return min(there + offset - here, self.owner.size)

    def span(self, start: int, end: int) -> Span:
        """Span in the owner of the fragment's characters ``start:end``."""
        first = self.owner_offset(start)
        last = self.owner_offset(end - 1) + 1 if end > start else first
        line, column = self.owner.position(first)
        return Span(line, column, *self.owner.position(max(first, last)), self.cell)

    def breaks(self, start: int, end: int) -> list[int]:
        """Offsets between ``start`` and ``end`` at which a new piece begins."""
        return self._starts[bisect_right(self._starts, start) : bisect_left(self._starts, end)]

    def cut(self, start: int, end: int, text: str | None = None) -> Fragment:
        """The characters ``start:end`` as a fragment of its own; of ``text``, if that replaces the fragment's own."""
        first, last = bisect_right(self._starts, start), bisect_left(self._starts, end)
        inner = ((here - start, there) for here, there in self.pieces[first:last])
        whole = self.text if text is None else text
        return Fragment(whole[start:end], self.owner, ((0, self.owner_offset(start)), *inner), self.cell)
