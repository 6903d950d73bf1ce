"""A tree goes on with other contents of some of its files; all that was found about the others is kept."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulint.query import LOOKUPS
from gpulint.reads import Input
from gpulint.records import dataclass
from gpulint.workspace.kept_syntax import keep_syntax
from gpulint.workspace.training_words import TrainingWords
from gpulint.workspace.tree import OF_ONE_FILE
from gpulint.workspace.word_index import matches_one

if TYPE_CHECKING:
    from gpulint.workspace.tree import Tree

_OF_NAMES = frozenset(
    {"files", "python_files", "named", "is_file", "is_dir", "exists", "entries", "module", "notebooks"}
)
"""Inputs that no content changes, as long as the same files exist."""
_OF_BYTES = frozenset({"has", "python files with", "files with", "in other files"})
"""Inputs that ask which files hold some bytes."""
_OF_FILE = frozenset(
    {
        "matches", "is_test", "imports", "bound imports", "stars", "imported", "bound", "callers", "calls", "contains",
        "finds", "words.holds", "words.holds one", "words.among", "words.finds", "words.calls", "words.imported",
        "words.vocabulary",
    }
)  # fmt: skip
"""Inputs that ask about the content of one file, which their key starts with."""


@dataclass(frozen=True)
class _Summary:
    """What a file held, as far as indexes of the tree tell of it."""

    data: bytes
    words: frozenset[bytes]
    imports: frozenset[bytes]
    classes: list[tuple[bytes, bytes]]
    feeds: bool


def revise(tree: Tree, texts: Mapping[Path, bytes | None]) -> None:
    """Give files another content; None is what the disk holds. Each of them must exist before and after.

    Answers of queries are kept, and checked when they are asked for. What is unlike the others is that objects of the
    tree stay the same, so answers may refer to it.
    """
    before = {path: _summary(tree, path) for path in texts}
    counts = not any(tree.module_indexes.get(path, tree) is None for path in tree.python_set.intersection(texts))
    kept = {path for path, data in texts.items() if _replace(tree, path, data)}
    after = {path: _summary(tree, path) for path in texts}
    change = _Change(tree, before, after, kept)
    tree.found = {text: found for text, found in tree.found.items() if change.holds_the_same(text)}
    for path in texts:
        if path in tree.python_set:
            then, now = before[path], after[path]
            classes = then.classes != now.classes
            tree.word_index.revise(path, then.words ^ now.words, then.imports ^ now.imports, classes=classes)
    tree.db.revise(tree, [*change.gone()], counts=counts)


def _replace(tree: Tree, path: Path, data: bytes | None) -> bool:
    """Give a file another content, and return whether its module is the same as before."""
    module, document = (tree.module_indexes.get(path), tree.load(path)) if tree.db.tracks_syntax else (None, None)
    tree.replace(path, data)
    return module is not None and keep_syntax(tree, document, module)


def adopt(tree: Tree, other: Tree) -> None:
    """Let a tree take over what another one whose files hold the same has read of single files."""
    for name in OF_ONE_FILE:
        known = getattr(tree, name)
        known.update({path: value for path, value in getattr(other, name).items() if path not in known})


def _summary(tree: Tree, path: Path) -> _Summary:
    data = tree.content(path)
    if path not in tree.python_set:
        return _Summary(data, frozenset(), frozenset(), [], False)
    index, feeds = tree.word_index, tree.models.derived(TrainingWords).feeds
    vocabulary = index.vocabulary(path)
    return _Summary(
        data, frozenset(vocabulary.split()), index.imported(path), index.class_lines(path), feeds(vocabulary)
    )


class _Change:
    """How a tree differs from what it was."""

    def __init__(
        self, tree: Tree, before: Mapping[Path, _Summary], after: Mapping[Path, _Summary], kept: Container[Path]
    ) -> None:
        """The modules of ``kept`` have the syntax that they had."""
        self._tree, self._kept = tree, kept
        self._pairs = {path: (before[path], after[path]) for path in before}
        pairs = self._pairs.values()
        self._words = frozenset(word for then, now in pairs for word in then.words ^ now.words)
        self._imports = frozenset(word for then, now in pairs for word in then.imports ^ now.imports)
        self._classes = any(then.classes != now.classes for then, now in pairs)
        self._feeds = any(then.feeds != now.feeds for then, now in pairs)
        self.holds_the_same = cache(self._holds_the_same)

    def _holds_the_same(self, text: bytes) -> bool:
        """Return whether the same files hold some bytes as before."""
        return all((text in then.data) == (text in now.data) for then, now in self._pairs.values())

    def gone(self) -> Iterator[Input]:
        """Inputs that have another value than they had."""
        for kind, table in self._tree.db.inputs.items():
            if kind == "content":
                yield from (table[path,] for path in self._pairs if (path,) in table)
            elif kind == "syntax":
                yield from (table[path,] for path in self._pairs if (path,) in table and path not in self._kept)
            elif kind not in _OF_NAMES:
                yield from (item for item in self._candidates(kind, table) if not self._is_same(item))

    def _candidates(self, kind: str, table: Mapping[tuple[Any, ...], Input]) -> Iterable[Input]:
        """Inputs of a kind that may have another value."""
        if kind == "words.mentioning":
            return [table[word,] for word in self._words if (word,) in table]
        if (kind in ("words.subclasses", "words.subclasses") and not self._classes) or (
            kind == "training" and not self._feeds
        ):
            return ()
        return [item for item in table.values() if self._may_differ(kind, item.key)]

    def _may_differ(self, kind: str, key: tuple[Any, ...]) -> bool:
        if kind in _OF_FILE:
            return key[0] in self._pairs
        if kind in _OF_BYTES:
            return not self.holds_the_same(key[0])
        if kind == "words.like":
            return matches_one(self._words, *key)
        return kind != "words.users" or not (key[0].isdisjoint(self._words) and key[1].isdisjoint(self._imports))

    def _is_same(self, item: Input) -> bool:
        """Return whether a lookup returns what it returned."""
        keeper = self._tree.word_index if item.kind.startswith("words.") else self._tree
        try:
            return bool(LOOKUPS[item.kind](keeper, *item.key) == item.value)
        except Exception:
            return False  # whoever still asks will see why
