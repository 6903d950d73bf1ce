"""The identifiers in a tree's files, and which Python files hold one: an index of bytes, nothing is parsed."""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property
from pathlib import Path

from gpulint import regex
from gpulint.identifiers import words_in
from gpulint.query import lookup
from gpulint.workspace.files import Files
from gpulint.workspace.substrings import Substrings

MAX_SEARCHES = 20
"""Identifiers that are searched for one by one; for more of them an index of all identifiers pays off."""

_IMPORT = regex.compile(rb"\n[ \t]*(?:from|import)[ \t][^\n(]*(?:\([^)]*|[^\n]*)")
_IMPORT_IN_CELL = regex.compile(rb"[\n\"][ \t]*(?:from|import)[ \t][^\n\"(]*(?:\([^)]*|[^\n\"]*)")
"""The same in a notebook, each line of which is a string."""
_CLASS = regex.compile(rb"\n[ \t]*class[ \t]+(\w+)[^(:\n]*\(([^)]*)")
_WORD = regex.compile(rb"[A-Za-z_][A-Za-z0-9_]*")


def word_of(name: str) -> bytes:
    """A name as files hold it. What is no text, such as a byte of a file name that is none in UTF-8, is in no file."""
    return name.encode("utf-8", "replace")


def on_line(word: bytes) -> bytes:
    """An identifier as a vocabulary holds it, on a line of its own."""
    return b"\n%b\n" % word


def matches_one(words: Iterable[bytes], pattern: bytes, flags: int) -> bool:
    """Return whether there is a match in one of some identifiers, each on a line of its own."""
    found = re.compile(pattern, flags).search
    return any(found(b"\n%b\n" % word) for word in words)


class WordIndex:
    """Words of the files of one tree; each is taken apart once."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.db = files.db
        self._vocabulary: dict[Path, bytes] = {}
        self._feeds: dict[Path, bool] = {}
        self._imported: dict[Path, bytes] = {}
        """As bytes, which take a quarter of the memory of a set."""
        self._mentions: dict[bytes, list[int]] = {}
        self._importers: dict[frozenset[bytes], frozenset[int]] = {}
        self._users: dict[tuple[frozenset[bytes], frozenset[bytes]], list[Path]] = {}
        self._subclasses: dict[bytes, frozenset[Path]] = {}
        self._alike: dict[tuple[bytes, int], set[Path]] = {}
        self.substrings = Substrings()
        """What of that which gates ask for is in which identifiers."""

    def learn(self, path: Path, vocabulary: bytes, imported: bytes) -> None:
        """Take over what an earlier run found in a file of the very same content."""
        self._vocabulary[path] = vocabulary
        self._imported[path] = imported

    def class_lines(self, path: Path) -> list[tuple[bytes, bytes]]:
        """Name and bases of each class in a file's bytes."""
        return _CLASS.findall(b"\n" + self._files.text_of(path))

    def adopt(self, known: WordIndex) -> None:
        """Take over what another tree found out about single files."""
        self._vocabulary = known._vocabulary.copy()
        self._imported = known._imported.copy()
        self.substrings = known.substrings  # which holds for any tree

    def forget(self, path: Path) -> None:
        """Forget the words of a file."""
        self._vocabulary.pop(path, None)
        self._feeds.pop(path, None)
        self._imported.pop(path, None)

    def discard(self, path: Path) -> None:
        """Forget the words of a file, and what was looked up in the whole tree."""
        self.forget(path)
        for index in (self._mentions, self._importers, self._users, self._subclasses, self._alike):
            index.clear()
        for name in ("_by_word", "_by_import", "_by_base"):
            self.__dict__.pop(name, None)

    def revise(self, path: Path, words: frozenset[bytes], imports: frozenset[bytes], *, classes: bool) -> None:
        """Take note of a file's new content; ``words`` and ``imports`` came or went, and ``classes`` may have."""
        if classes:
            self._subclasses.clear()
            self.__dict__.pop("_by_base", None)
        if words or imports:
            number = self._files.all_python.index(path)
            _move(number, words, self.__dict__.get("_by_word"), self._words_of(path).split())
            _move(number, imports, self.__dict__.get("_by_import"), self._imported_in(path))
        for word in words:
            self._mentions.pop(word, None)
        for (pattern, flags), files in self._alike.items():
            if matches_one(words, pattern, flags):
                (files.add if re.search(pattern, self._words_of(path), flags) else files.discard)(path)
        for home in [home for home in self._importers if not home.isdisjoint(imports)]:
            del self._importers[home]
        for key in [key for key in self._users if not (key[0].isdisjoint(words) and key[1].isdisjoint(imports))]:
            del self._users[key]

    @lookup("words.mentioning")
    def mentioning(self, word: bytes) -> list[Path]:
        """Python files that hold an identifier, in order."""
        files = self._files.all_python
        return [files[number] for number in self._mentioning(word)]

    @lookup("words.users")
    def users(self, words: frozenset[bytes], home: frozenset[bytes]) -> list[Path]:
        """Python files that hold one of ``words``, and one of ``home`` on an import line, in order."""
        known = self._users.get((words, home))
        if known is None:
            importing, files = self._importing(home), self._files.all_python
            found = {number for word in words for number in self._mentioning(word) if number in importing}
            known = self._users[words, home] = [files[number] for number in sorted(found)]
        return known

    @lookup("words.importing")
    def importing(self, words: frozenset[bytes]) -> list[Path]:
        """Python files with one of some identifiers on an import line, in order."""
        files = self._files.all_python
        return [files[number] for number in sorted(self._importing(words))]

    def _mentioning(self, word: bytes) -> Sequence[int]:
        """Positions of the Python files that hold an identifier, in order."""
        if word not in self._mentions:
            if "_by_word" in self.__dict__ or len(self._mentions) > MAX_SEARCHES:
                return self._by_word.get(word, ())
            whole, vocabulary = on_line(word), self._words_of
            self._mentions[word] = [
                number for number, path in enumerate(self._files.all_python) if whole in vocabulary(path)
            ]
        return self._mentions[word]

    @cached_property
    def _by_word(self) -> dict[bytes, list[int]]:
        """Identifier -> positions of the Python files that hold it."""
        table: dict[bytes, list[int]] = {}
        for number, path in enumerate(self._files.all_python):
            for word in self._words_of(path).split():
                if word in table:
                    table[word].append(number)
                else:
                    table[word] = [number]
        return table

    def _importing(self, words: frozenset[bytes]) -> frozenset[int]:
        """Positions of the Python files with one of these identifiers on an import line."""
        if words not in self._importers:
            self._importers[words] = frozenset(number for word in words for number in self._by_import.get(word, ()))
        return self._importers[words]

    @cached_property
    def _by_import(self) -> dict[bytes, list[int]]:
        """Identifier -> positions of the Python files that have it on an import line."""
        table: dict[bytes, list[int]] = {}
        for number, path in enumerate(self._files.all_python):
            for word in self._imported_in(path):
                table.setdefault(word, []).append(number)
        return table

    @lookup("words.subclasses")
    def subclass_files(self, owner: bytes) -> frozenset[Path]:
        """Python files with a class that by its name, or by those of its bases, derives from a class ``owner``."""
        if owner not in self._subclasses:
            known, names, found = {owner}, [owner], set[Path]()
            for name in names:
                for subclass, path in self._by_base.get(name, ()):
                    found.add(path)
                    if subclass not in known:
                        known.add(subclass)
                        names.append(subclass)
            self._subclasses[owner] = frozenset(found)
        return self._subclasses[owner]

    @lookup("words.subclasses")
    def subclasses(self, owner: bytes) -> list[tuple[Path, bytes]]:
        """(file, class) of the classes that by their names derive from a class ``owner`` themselves."""
        return sorted({(path, subclass) for subclass, path in self._by_base.get(owner, ())})

    @cached_property
    def _by_base(self) -> dict[bytes, list[tuple[bytes, Path]]]:
        """Identifier -> (class, file) of the classes that have it among their bases."""
        table: dict[bytes, list[tuple[bytes, Path]]] = {}
        for path in self._files.all_python:
            for subclass, bases in self.class_lines(path):
                for base in _WORD.findall(bases):
                    table.setdefault(base, []).append((subclass, path))
        return table

    @lookup("words.imported")
    def imported(self, path: Path) -> frozenset[bytes]:
        """Identifiers in the import statements of a file's bytes."""
        return self._imported_in(path)

    def _imported_in(self, path: Path) -> frozenset[bytes]:
        known = self._imported.get(path)
        if known is None:
            in_cells = path.suffix == ".ipynb"
            data = self._files.text_of(path) if in_cells else self._files.content(path)
            pattern = _IMPORT_IN_CELL if in_cells else _IMPORT
            lines = pattern.findall(b"\n" + data.removeprefix(b"\xef\xbb\xbf")) if b"import" in data else []
            known = self._imported[path] = b" ".join({word for line in lines for word in _WORD.findall(line)})
        return frozenset(known.split())

    @lookup("words.vocabulary")
    def vocabulary(self, path: Path) -> bytes:
        """The identifiers in a file's bytes, each once and on a line of its own."""
        return self._words_of(path)

    def _words_of(self, path: Path) -> bytes:
        known = self._vocabulary.get(path)
        if known is None:
            known = self._vocabulary[path] = b"\n%b\n" % b"\n".join(words_in(self._files.text_of(path)))
        return known

    def feeding(self, feeds: Callable[[bytes], bool]) -> tuple[Path, ...]:
        """Python files whose identifiers say that they train, evaluate or feed a model, as ``feeds`` decides; the same
        decides for all files of a tree."""
        known = self._feeds
        for path in self._files.all_python:
            if path not in known:
                known[path] = feeds(self._words_of(path))
        return tuple(path for path in self._files.all_python if known[path])

    def like(self, pattern: re.Pattern[bytes]) -> tuple[Path, ...]:
        """Python files in whose identifiers, each on a line of its own, there is a match, in order."""
        return self._like(pattern.pattern, pattern.flags)

    @lookup("words.like")
    def _like(self, pattern: bytes, flags: int) -> tuple[Path, ...]:
        known = self._alike.get((pattern, flags))
        if known is None:
            found, files = re.compile(pattern, flags).search, self._files.all_python
            known = self._alike[pattern, flags] = {path for path in files if found(self._words_of(path))}
        return tuple(path for path in self._files.all_python if path in known) if known else ()

    @lookup("words.holds")
    def holds(self, path: Path, word: bytes) -> bool:
        """Return whether an identifier is in a file's bytes."""
        return on_line(word) in self._words_of(path)

    def calls(self, path: Path, pattern: re.Pattern[bytes]) -> bool:
        """Return whether a file's bytes may call one of its identifiers that ``pattern`` finds (as its group) in the
        file's vocabulary."""
        return self._calls(path, pattern.pattern, pattern.flags)

    @lookup("words.calls")
    def _calls(self, path: Path, pattern: bytes, flags: int) -> bool:
        words, data = {*re.findall(pattern, self._words_of(path), flags)}, self._files.text_of(path)
        return len(words) > MAX_SEARCHES or any(re.search(rb"%b\s*[(\[)\\#]" % word, data) for word in words)

    @lookup("words.among")
    def among(self, path: Path, words: frozenset[bytes]) -> frozenset[bytes]:
        """Return those of some identifiers that are in a file's bytes."""
        vocabulary = self._words_of(path)
        return frozenset(word for word in words if on_line(word) in vocabulary)

    def finds(self, path: Path, pattern: re.Pattern[bytes]) -> bool:
        """Return whether there is a match in a file's identifiers, each on a line of its own."""
        return self._finds(path, pattern.pattern, pattern.flags)

    @lookup("words.finds")
    def _finds(self, path: Path, pattern: bytes, flags: int) -> bool:
        return re.search(pattern, self._words_of(path), flags) is not None

    @lookup("words.holds one")
    def holds_one(self, path: Path, words: frozenset[bytes]) -> bool:
        """Return whether one of some identifiers is in a file's bytes."""
        vocabulary = self._words_of(path)
        return any(on_line(word) in vocabulary for word in words)

    def of(self, path: Path) -> frozenset[bytes]:
        """Identifiers in a file's bytes."""
        return frozenset(self.vocabulary(path).split())


def _move(number: int, words: frozenset[bytes], table: dict[bytes, list[int]] | None, now: Collection[bytes]) -> None:
    """Add a file's number to the rows of words that came, and take it from those of words that went."""
    if table is None:
        return
    held = frozenset(now)
    for word in words:
        row = [other for other in table.get(word, ()) if other != number]
        if word in held:
            bisect.insort(row, number)
        table[word] = row
