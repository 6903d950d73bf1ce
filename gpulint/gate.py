"""The byte gate: which rules can fire in a file at all, told from its bytes before anything is parsed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.rule import Kind

if TYPE_CHECKING:
    from gpulint.rule import Rule
    from gpulint.workspace.tree import Tree

CODE = (Kind.PYTHON, Kind.NOTEBOOK)


class Gate:
    """The gate of one file; each token is looked for once."""

    def __init__(self, tree: Tree, path: Path, kind: Kind) -> None:
        self._tree = tree
        self._kind = kind
        self.path = path
        self._data = tree.utf8(path)
        # An identifier is found faster among the file's identifiers than in the whole file.
        self._words = tree.word_index.vocabulary(path) if kind in CODE else self._data
        self._known: dict[str, bool] = {}
        self.models = tree.models

    def admits(self, rule: Rule) -> bool:
        """May the rule fire in this file?"""
        if self._kind not in rule.kinds:
            return False
        if rule.reads and any(map(self.has_word, self.models.added_words(rule.reads))):
            return True
        code = self._kind in CODE
        groups = rule.code_tokens + rule.tokens if code else rule.tokens
        if not all(any(map(self.has, group)) for group in groups):
            return False
        return not code or rule.may_fire is None or rule.may_fire(self)

    def tree_has(self, token: str) -> bool:
        """Is a string in any file of the tree?"""
        return self._tree.has(token.encode())

    def matches(self, pattern: re.Pattern[bytes]) -> bool:
        """Is there a match in the file's bytes?"""
        return pattern.search(self._data) is not None

    def has_word(self, word: str) -> bool:
        """Is an identifier in the file?"""
        return b"\n%b\n" % word.encode() in self._words

    def calls(self, names: Iterable[str]) -> bool:
        """Is one of these identifiers followed by a parenthesis, in a line that is no example in a docstring?"""
        return any(self.has_word(name) and self._calls(name.encode()) for name in names)

    def calls_like(self, pattern: re.Pattern[bytes]) -> bool:
        """The same for identifiers in which there is a match; they stand on a line each."""
        words, seen = self._words, set[bytes]()
        for match in pattern.finditer(words):
            word = words[words.rfind(b"\n", 0, match.start()) + 1 : words.find(b"\n", match.end())]
            if word not in seen and self._calls(word):
                return True
            seen.add(word)
        return False

    def _calls(self, word: bytes) -> bool:
        # The word comes first, as a search for fixed bytes is far faster than one for a word boundary.
        for match in re.finditer(rb"%b(?<!\w%b)\s*\(" % (word, word), self._data):
            line = self._data[self._data.rfind(b"\n", 0, match.start()) + 1 : match.start()]
            if not line.lstrip().startswith((b">>>", b"...")):
                return True
        return False

    def has(self, token: str) -> bool:
        """Is a string in the file?"""
        found = self._known.get(token)
        if found is None:
            plain = token.isascii() and token.isidentifier()
            found = self._known[token] = token.encode() in (self._words if plain else self._data)
        return found
