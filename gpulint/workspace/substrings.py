"""Which of many strings are in which words, found out once for each word: the same words recur in all files."""

from __future__ import annotations

from functools import reduce
from operator import or_


class Substrings:
    """A set of strings is a number with one bit for each of them."""

    def __init__(self) -> None:
        self._bits: dict[bytes, int] = {}
        self._masks: dict[bytes, int] = {}
        """Words -> the strings that are in them."""
        self.of_tokens: dict[tuple[str, ...] | frozenset[str], tuple[int, int, tuple[str, ...]]] = {}
        """What :mod:`gpulint.gate` makes of groups of strings."""

    def bit(self, string: bytes) -> int:
        """The bit of a string."""
        bit = self._bits.get(string)
        if bit is None:
            bit = self._bits[string] = 1 << len(self._bits)
            masks = self._masks
            for word in masks:
                if string in word:
                    masks[word] |= bit
        return bit

    @property
    def known(self) -> int:
        """The bits of all strings that were asked for so far."""
        return (1 << len(self._bits)) - 1

    def found_in(self, words: frozenset[bytes]) -> int:
        """The bits of the strings that are in some of ``words``."""
        masks = self._masks
        unknown = words.difference(masks)
        if unknown:
            masks.update(dict.fromkeys(unknown, 0))
            text = b"\n".join([b"", *unknown, b""])
            for string, bit in self._bits.items():
                at = text.find(string)
                while at != -1:
                    end = text.find(b"\n", at)
                    masks[text[text.rfind(b"\n", 0, at) + 1 : end]] |= bit
                    at = text.find(string, end)
        return reduce(or_, map(masks.__getitem__, words), 0)
