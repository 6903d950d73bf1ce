"""Stored answers that outlive their tree, each with what it rests on, and which of them still hold for another tree.

A snapshot of a tree holds its stored answers and the inputs that they rest on, each with a digest of what it was. For
the tree as it is later, an answer holds if each of its inputs is what it was and each stored answer that it rests on
is the same. What does not hold is asked anew, in the order in which it was asked, and may turn out to be the same.

Most inputs need not even be asked: what changed between the trees says which of them can be different. For that a
snapshot also holds the identifiers of each file.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulint import regex
from gpulint.codec import Codec, Plain
from gpulint.merging import Merged
from gpulint.query import LOOKUPS, STORED
from gpulint.reads import Input, Read, StoredEntry, StoredQuery, TakenEntry, followed, rests_of
from gpulint.workspace.training_words import TrainingWords
from gpulint.workspace.word_index import matches_one

if TYPE_CHECKING:
    from gpulint.workspace.tree import Tree

_WORD = regex.compile(r"[A-Za-z0-9_]+")
_WRITTEN = 60_000
"""Answers and inputs of a snapshot that are written in a second."""


def digest_of(value: Any) -> str:
    """A digest of plain data, paths and bytes."""
    text = json.dumps(_plain(value), separators=(",", ":"))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def _plain(value: Any) -> Plain:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, frozenset | set):
        return sorted(map(_plain, value))
    if isinstance(value, tuple | list):
        return [_plain(part) for part in value]
    return value


def query_named(name: str) -> StoredQuery:
    """A stored query; its module is imported if need be."""
    if name not in STORED:
        importlib.import_module(name.partition("|")[0])
    return STORED[name]


def value_of(tree: Tree, kind: str, key: tuple[Any, ...]) -> Any:
    """Return what an input is now."""
    if kind == "content":
        path = key[0]
        data = tree.content(path)
        return hashlib.blake2b(data, digest_size=16).hexdigest(), tree.unreadable(path)
    if kind == "files":
        return tree.files
    if kind == "python_files":
        return tree.python_files
    if kind == "named":
        return key[0] in tree.explicit_files
    if kind == "words.vocabulary":  # which is in another order in each process
        return tree.word_index.of(*key)
    keeper = tree.word_index if kind.startswith("words.") else tree
    return LOOKUPS[kind](keeper, *key)


class Writer:
    """Makes the snapshot of a tree."""

    def __init__(self, tree: Tree, encode: Callable[[Any], Plain], known: Mapping[Input, str]) -> None:
        """``encode`` makes the answers of units plain; ``known`` are digests of inputs that need not be made again."""
        self._tree, self._encode, self._known = tree, encode, dict(known)
        self._codec = Codec(tree.root)
        self._inputs: dict[Input, int] = {}
        self._nodes: dict[StoredEntry, int | None] = {}
        self._rows: list[Plain] = []

    def add(self, entry: StoredEntry) -> int | None:
        """Take up an answer and what it rests on; None if something failed on the way to it."""
        if entry not in self._nodes:
            self._nodes[entry] = self._row(entry)
        return self._nodes[entry]

    def _row(self, entry: StoredEntry) -> int | None:
        inputs: list[int] = []
        nodes: list[int] = []
        for read in followed(entry):
            if isinstance(read, Input):
                inputs.append(self._inputs.setdefault(read, len(self._inputs)))
                continue
            number = self.add(read) if isinstance(read, StoredEntry) else None
            if number is None:
                return None
            nodes.append(number)
        query = entry.query
        if isinstance(entry, TakenEntry):
            self._rows.append([query.name, self._codec.out(entry.key)])
            return len(self._rows) - 1
        value = self._codec.out(entry.value) if "|" in query.name else self._encode(entry.value)
        self._rows.append([query.name, self._codec.out(entry.key), value, inputs, nodes])
        return len(self._rows) - 1

    def take(self, parts: Sequence[Plain]) -> None:
        """Take up what other processes found about the same tree (their :meth:`part`)."""
        codec, db = self._codec, self._tree.db
        inputs: list[list[int | None]] = []
        for part in parts:
            inputs.append([])
            for kind, key, digest in part["inputs"]:
                item = db.input(kind, codec.back(key))
                same = self._known.setdefault(item, digest) == digest
                inputs[-1].append(self._inputs.setdefault(item, len(self._inputs)) if same else None)
        Merged([part["nodes"] for part in parts], inputs, self._rows).add_all()

    def part(self) -> dict[str, Plain]:
        """Return what was taken up, fit for JSON."""
        return {
            "inputs": [
                [item.kind, self._codec.out(item.key), self._known.get(item) or self._digest(item)]
                for item in self._inputs
            ],
            "nodes": self._rows,
        }

    def snapshot(self) -> dict[str, Plain]:
        """The snapshot, fit for JSON."""
        return {
            **self.part(),
            "files": {self._codec.out(path): _summary(self._tree, path) for path in self._tree.files},
            "folders": {
                self._codec.out(folder): digest_of(self._tree.entries(folder))
                for folder in sorted(self._tree.disk_asked["entries"])
            },
        }

    def _digest(self, item: Input) -> str:
        return digest_of(value_of(self._tree, item.kind, item.key))


def _summary(tree: Tree, path: Path) -> Plain:
    """Return what tells which inputs may change with a file: digest, identifiers, those on import lines, classes, and
    what is known of the parsed module."""
    digest = hashlib.blake2b(tree.content(path), digest_size=16).hexdigest()
    if path not in tree.python_set or tree.is_utf16(path):  # whose bytes are not those of its identifiers
        return [digest]
    words = tree.word_index
    classes = words.class_lines(path)
    return [
        digest,
        words.vocabulary(path).decode("latin-1"),
        b" ".join(sorted(words.imported(path))).decode("latin-1"),
        digest_of(classes) if classes else "",
        tree.summary(path),
        tree.known_imports(path),
    ]


class Change:
    """How a tree differs from the one that a snapshot was made of, as far as inputs may tell."""

    def __init__(self, tree: Tree, files: Mapping[Path, Plain], folders: Mapping[Path, str]) -> None:
        self._tree = tree
        self.folders = any(digest_of(tree.entries(folder)) != then for folder, then in folders.items())
        own = frozenset(tree.files)
        self.files = own != files.keys()
        self.paths = own ^ files.keys()
        self.words, self.imports = set[bytes](), set[bytes]()
        self.classes = self._feeds = False
        self._pairs: list[tuple[str, str]] = []
        """The identifiers of each changed file before and now; none of it where it is no Python."""
        for path in own:
            then = files.get(path)
            if then is not None and then[0] == hashlib.blake2b(tree.content(path), digest_size=16).hexdigest():
                if len(then) > 1:
                    tree.word_index.learn(path, then[1].encode("latin-1"), then[2].encode("latin-1"))
                    tree.learn(path, then[4], then[5])
                continue
            self.paths |= {path}
        self._own = own | files.keys()
        feeds = tree.models.derived(TrainingWords).feeds
        for path in self.paths:
            then, now = files.get(path, [""]), _summary(tree, path) if path in own else [""]
            then, now = (row if len(row) > 1 else ["", "", "", ""] for row in (then, now))
            self.words |= _words(then[1]) ^ _words(now[1])
            self.imports |= _words(then[2]) ^ _words(now[2])
            self.classes |= then[3] != now[3]
            self._pairs.append((then[1], now[1]))
            self._feeds |= feeds(then[1].encode("latin-1")) != feeds(now[1].encode("latin-1"))

    def may_change(self, kind: str, key: tuple[Any, ...]) -> bool:
        """Return whether an input may be another than it was."""
        match kind:
            case (
                "content" | "matches" | "is_test" | "imports" | "bound imports" | "stars" | "bound" | "callers"
                | "calls" | "contains" | "finds" | "words.holds" | "words.holds one" | "words.among" | "words.finds"
                | "words.calls" | "words.imported" | "words.vocabulary"
            ):  # fmt: skip
                return key[0] in self.paths or key[0] not in self._own
            case "imported":
                return self.folders or key[0] in self.paths or key[0] not in self._own
            case "module":
                return self.folders
            case "words.mentioning":
                return key[0] in self.words
            case "words.users":
                return not (key[0].isdisjoint(self.words) and key[1].isdisjoint(self.imports))
            case "words.subclasses" | "words.subclasses":
                return self.classes
            case "files" | "python_files":
                return self.files
            case "words.like":
                return matches_one(self.words, *key)
            case "training":
                return self._feeds
            case "has":
                return any(map(self._may_hold(key[0].decode("latin-1")), self._pairs))
        return True

    @staticmethod
    def _may_hold(text: str) -> Callable[[tuple[str, str]], bool]:
        """Return whether only one of two texts may hold a string, going by their identifiers."""
        is_word = _WORD.fullmatch(text) is not None
        return lambda pair: not (is_word and all(pair) and (text in pair[0]) == (text in pair[1]))


def _words(text: str) -> frozenset[bytes]:
    return frozenset(text.encode("latin-1").split())


class Snapshot:
    """Answers for an earlier tree, as far as they hold for a later one."""

    def __init__(self, tree: Tree, held: Plain, decode: Callable[[Plain], Any]) -> None:
        """``held`` is what :meth:`Writer.snapshot` made; ``decode`` is the inverse of what it encoded units with.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: it is no snapshot.
        """
        self._tree, self._decode = tree, decode
        codec = self._codec = Codec(tree.root)
        files, folders = ({codec.back(path): row for path, row in held[kind].items()} for kind in ("files", "folders"))
        self._change = Change(tree, files, folders)
        self._inputs = [tree.db.input(kind, codec.back(key)) for kind, key, _ in held["inputs"]]
        self._digests: list[str] = [digest for _, _, digest in held["inputs"]]
        # Few inputs can be others than they were, so each answer costs one comparison of sets.
        self._doubtful = {
            number for number, item in enumerate(self._inputs) if self._change.may_change(item.kind, item.key)
        }
        self._same: dict[int, bool] = {}
        self._rows: list[Plain] = held["nodes"]
        self._numbers = {(row[0], codec.back(row[1])): number for number, row in enumerate(self._rows)}
        self._entries: dict[int, StoredEntry | None] = {}

    @property
    def writing_s(self) -> float:
        """About how many CPU seconds it takes to make such a snapshot and keep it."""
        return (len(self._rows) + len(self._inputs)) / _WRITTEN

    @property
    def known(self) -> dict[Input, str]:
        """Digests of inputs that are what they were."""
        return {
            item: digest
            for number, (item, digest) in enumerate(zip(self._inputs, self._digests, strict=True))
            if self._are_same((number,))
        }

    def others(self) -> Iterator[StoredEntry]:
        """Units that this run was not about and whose answers hold as far as that can be told without asking anew."""
        for number, (name, key, value, inputs, nodes) in enumerate(self._rows):
            if "|" in name or number in self._entries:
                continue
            reads = [self._entries.get(node) for node in nodes]
            if self._are_same(inputs) and None not in reads:
                found: list[Read] = [self._inputs[item] for item in inputs]
                found += [read for read in reads if read is not None]
                yield StoredEntry(StoredQuery(name, print), self._codec.back(key), self._decode(value), rests_of(found))

    def get(self, query: StoredQuery, args: tuple[Any, ...]) -> StoredEntry | None:
        """The answer if it still holds."""
        number = self._numbers.get((query.name, args))
        if number is None:
            return None
        if number not in self._entries:
            self._entries[number] = None  # a request for itself is computed again
            self._entries[number] = self._verified(number, query, args)
        return self._entries[number]

    def _verified(self, number: int, query: StoredQuery, args: tuple[Any, ...]) -> StoredEntry | None:
        _, _, value, inputs, nodes = self._rows[number]
        if not self._are_same(inputs):
            return None
        reads: list[Read] = [self._inputs[item] for item in inputs]
        for node in nodes:
            entry = self._now(node)
            if entry is None:
                return None
            reads.append(entry)
        found = self._codec.back(value) if "|" in query.name else self._decode(value)
        return StoredEntry(query, args, found, rests_of(reads))

    def _now(self, number: int) -> StoredEntry | None:
        """The answer that an answer rests on, asked anew if need be; None if it is another one."""
        name, key, value, *_ = self._rows[number]
        query, args = query_named(name), self._codec.back(key)
        entry = self._tree.db.asked(query, self._tree, args)
        return entry if entry.value == self._codec.back(value) else None

    def _are_same(self, numbers: Iterable[int]) -> bool:
        """Return whether inputs are what they were."""
        return self._doubtful.isdisjoint(numbers) or all(map(self._is_same, self._doubtful.intersection(numbers)))

    def _is_same(self, number: int) -> bool:
        same = self._same.get(number)
        if same is None:
            item = self._inputs[number]
            now = digest_of(value_of(self._tree, item.kind, item.key))
            same = self._same[number] = now == self._digests[number]
        return same
