"""The byte gate: which rules can fire in a file at all, told from its bytes before anything is parsed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property, reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.base import LAUNCHERS
from gpulint.documents.calls import CallRows
from gpulint.documents.inline_python import may_hold_python
from gpulint.rule import Kind
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.rule import Rule
    from gpulint.workspace.substrings import Substrings
    from gpulint.workspace.tree import Tree

CODE = (Kind.PYTHON, Kind.NOTEBOOK)


class Gate:
    """The gate of one file. In code, what an identifier may hold is looked for in the file's identifiers first."""

    def __init__(self, tree: Tree, path: Path, kind: Kind) -> None:
        self._tree = tree
        self.kind = kind
        self.path = path
        self._data = tree.utf8(path)
        self._known: dict[str, bool] = {}
        self.models = tree.models

    def admits(self, rule: Rule) -> bool:
        """Return whether the rule may fire in this file."""
        if self.kind not in rule.kinds:
            return False
        if rule.reads and any(map(self.has_word, self.models.added_words(rule.reads))):
            return True
        if self.kind not in CODE:
            return all(map(self.has_any, rule.tokens))
        if not all(map(self.has_any, rule.code_tokens)) or not all(map(self.has_any, rule.tokens)):
            return False
        return rule.may_fire is None or rule.may_fire(self)

    @cached_property
    def words(self) -> frozenset[bytes]:
        """The identifiers in the file's bytes."""
        return self._tree.word_index.of(self.path)

    @cached_property
    def _mask(self) -> tuple[int, int]:
        """What is in the identifiers, and all that was looked for there."""
        substrings = self._tree.word_index.substrings
        return substrings.found_in(self.words), substrings.known

    def bits_of(self, tokens: tuple[str, ...] | frozenset[str]) -> tuple[int, int, tuple[str, ...]]:
        """Return what :func:`_bits` says of some strings."""
        substrings = self._tree.word_index.substrings
        found = substrings.of_tokens.get(tokens)
        if found is None:
            found = substrings.of_tokens[tokens] = _bits(substrings, tokens)
        return found

    def present(self, bits: int) -> int:
        """Those of some strings that are in the file's identifiers."""
        there, known = self._mask
        if bits & ~known:  # a string that no gate has asked for before
            del self._mask
            there, known = self._mask
        return bits & there

    def tree_has(self, token: str) -> bool:
        """Return whether a string is in any file of the tree."""
        return self._tree.has(token.encode())

    def matches(self, pattern: re.Pattern[bytes]) -> bool:
        """Return whether there is a match in the file's bytes."""
        return pattern.search(self._data) is not None

    def has_word(self, word: str) -> bool:
        """Return whether an identifier is in the file."""
        return word_of(word) in self.words

    def calls(self, names: Iterable[str]) -> bool:
        """Return whether one of these identifiers is followed by a parenthesis, in a line that is no example in a
        docstring."""
        return any(map(self._calls, self.words.intersection(_encoded(frozenset(names)))))

    def calls_like(self, pattern: re.Pattern[bytes]) -> bool:
        """The same for identifiers in which there is a match."""
        words, seen = self._tree.word_index.vocabulary(self.path), set[bytes]()
        for match in pattern.finditer(words):
            word = words[words.rfind(b"\n", 0, match.start()) + 1 : words.find(b"\n", match.end())]
            if word not in seen and self._calls(word):
                return True
            seen.add(word)
        return False

    def sets(self, names: Iterable[str]) -> bool:
        """Return whether one of these identifiers is followed by an equals sign (``download=True``)."""
        words = self.words.intersection(_encoded(frozenset(names)))
        return any(True for word in words for _ in self._followed(word, _SET))

    def _calls(self, word: bytes) -> bool:
        data = self._data
        return any(
            not data[data.rfind(b"\n", 0, at) + 1 : at].lstrip().startswith((b">>>", b"..."))
            for at in self._followed(word, _CALLED)
        )

    def _followed(self, word: bytes, by: re.Pattern[bytes]) -> Iterator[int]:
        """Yield the places where an identifier is followed by a match of ``by``."""
        # Searching for fixed bytes is far faster than any expression with a word boundary.
        data, at = self._data, -1
        while (at := data.find(word, at + 1)) != -1:
            if by.match(data, at + len(word)) and not _IN_WORD.match(data[max(at - 1, 0) : at]):
                yield at

    def has_any(self, tokens: tuple[str, ...] | frozenset[str]) -> bool:
        """Return whether one of these strings is in the file."""
        if self.kind not in CODE:
            return any(map(self.has, tokens))
        whole, parts, others = self.bits_of(tokens)
        there = self.present(whole | parts)
        if there & whole:
            return True
        return bool(others) and (not parts or there & parts != 0) and any(map(self.has, others))

    def has(self, token: str) -> bool:
        """Return whether a string is in the file."""
        found = self._known.get(token)
        if found is None:
            found = self._known[token] = self._has(token)
        return found

    def _has(self, token: str) -> bool:
        if self.kind in CODE:
            part = _identifier(token)
            if part and not self.present(self._tree.word_index.substrings.bit(part)):
                return False
            if len(part) == len(token):
                return True
        return word_of(token) in self._data


def gates_of(tree: Tree, path: Path, kind: Kind, data: bytes) -> list[Gate]:
    """The gate of a file, and that of what it carries: programs of a launcher, jobs that a program submits."""
    own = Gate(tree, path, kind)
    if kind in LAUNCHERS and may_hold_python(data):
        return [own, Gate(tree, path, Kind.PYTHON)]
    if kind in CODE and tree.models.derived(CallRows).may_hold_jobs(own.words):
        return [own, Gate(tree, path, Kind.JOBSPEC)]
    return [own]


class Candidates:
    """Rules for files of some kinds, and which of them a file's identifiers already exclude.

    Files with the same identifiers in them have the same candidates, so most files of a large tree cost one look-up.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = rules
        self._groups: list[tuple[Rule, list[int]]] = []
        self._bits = 0
        self._by_strings: dict[int, list[Rule]] = {}

    def of(self, gate: Gate) -> Sequence[Rule]:
        """The rules without those that :meth:`Gate.admits` refuses for want of a string in the identifiers."""
        if gate.kind not in CODE:
            return self.rules
        if not self._groups:
            self._groups = [(rule, _needed(rule, gate)) for rule in self.rules]
            self._bits = reduce(or_, (bits for _, groups in self._groups for bits in groups), 0)
        strings = gate.present(self._bits)
        found = self._by_strings.get(strings)
        if found is None:
            found = [rule for rule, groups in self._groups if all(strings & bits for bits in groups)]
            self._by_strings[strings] = found
        return found


def _needed(rule: Rule, gate: Gate) -> list[int]:
    """Bits of which an admitted file has at least one, group by group."""
    if rule.reads and gate.models.added_words(rule.reads):
        return []
    groups = map(gate.bits_of, (*rule.code_tokens, *rule.tokens))
    return [whole | parts for whole, parts, others in groups if parts or not others]


_SET = regex.compile(rb"\s*=[^=]")
_CALLED = regex.compile(rb"\s*\(")
_IN_WORD = regex.compile(rb"\w")
_IDENTIFIER = regex.compile(r"[A-Za-z0-9_]+")


@cache
def _identifier(token: str) -> bytes:
    """The longest (part of an) identifier in a string; empty if there may be none."""
    parts = _IDENTIFIER.findall(token) if token.isascii() else []
    return max(parts, key=len, default="").encode()


def _bits(substrings: Substrings, tokens: Iterable[str]) -> tuple[int, int, tuple[str, ...]]:
    """The bits of those strings that identifiers can hold, the bits of what they hold of the others, and the others.

    There are no bits of others if one of them holds nothing of an identifier.
    """
    plain = [token for token in tokens if len(_identifier(token)) == len(token)]
    others = tuple(token for token in tokens if token not in plain)
    whole = reduce(or_, (substrings.bit(_identifier(token)) for token in plain), 0)
    if not all(map(_identifier, others)):
        return whole, 0, others
    return whole, reduce(or_, (substrings.bit(_identifier(token)) for token in others), 0), others


@cache
def _encoded(names: frozenset[str]) -> frozenset[bytes]:
    return frozenset(map(word_of, names))
