"""Bounds on what reading one document may take: counts that depend on its text alone, never on time or on a machine.

Expansion is exponential by nature: each of sixty lines may double what the line before made. So what expansion makes is
counted. Past the bound a value is unknown, the rest of the document is read as usual, and a note says so.
"""

from __future__ import annotations

MAX_EXPANDED = 300_000
"""Words that all the variables of one document expand to in all, at most."""
_LEAST, _MOST = 8, 10_000
_LONG = 64
"""Characters that a word may have before it counts as several."""


class Budget:
    """Counts down what one document may still expand to."""

    def __init__(self, limit: int = MAX_EXPANDED) -> None:
        self.limit = self.left = limit

    @property
    def exhausted(self) -> bool:
        return self.left < 0

    def spend(self, amount: int) -> bool:
        """Take ``amount`` from what is left. False, from then on, if there was less."""
        if self.left >= 0:
            self.left -= amount
        return self.left >= 0


def longest_value(uses: int) -> int:
    """The size up to which a value is followed where ``uses`` places may use it, so that no order of work matters."""
    return max(_LEAST, min(_MOST, MAX_EXPANDED // max(uses, 1)))


def size(text: str) -> int:
    """Size of a text, in words."""
    return 1 + len(text.split()) + len(text) // _LONG


def too_long(what: str, limit: int) -> str:
    """The text of the note on a document in which a bound was passed."""
    return f"{what} expands to more than {limit:,} words; what uses it was not analysed"
