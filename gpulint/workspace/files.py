"""The files of one tree: their bytes, read when somebody asks, and what else was asked of the disk."""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from gpulint import disk, regex
from gpulint.documents import kind_of
from gpulint.query import Db, lookup
from gpulint.rule import Kind

_ENCODED = regex.compile(rb'"[A-Za-z0-9+/=\\]{1000,}"')
_TEST_FOLDERS = regex.compile(
    r"(^|/)(tests?|test_?data|(test_?)?fixtures|testing|unit_?tests?|(functional|smoke|integration)_tests|test_utils|ci)/"
)
_TESTS = regex.compile(r"(^|/)(_?(smoke_)?test_[^/]*|[^/]*[_-]tests?|conftest)\.(py|ipynb|sh|ya?ml)$")
_ASSERTS = regex.compile(rb"def _?test_|unittest|pytest|TestCase|assert_")
_EVALUATES = tuple(
    regex.compile(text)
    for text in (
        rb"load_state_dict\(|torch\.load\(|\.load_weights\(|load_model\(|load_from_checkpoint\(",
        rb"argparse|parse_args|__main__",
        rb"[Ll]oader",
    )
)
"""What a program that tests a trained model holds: it loads the weights, takes options and reads batches."""


def _digest(path: str) -> str | None:
    import hashlib

    try:
        return hashlib.blake2b(disk.read(path), digest_size=16).hexdigest()
    except OSError:
        return None


def _entries(path: str) -> list[str] | None:
    try:
        return sorted(os.listdir(path))  # noqa: PTH208 - just names
    except (OSError, ValueError):
        return None


def _is_absent(path: str, names: Mapping[str, frozenset[str] | None]) -> bool:
    """Return whether the names in the folder above, or in one further above, say that there is no such path."""
    folder, name = os.path.split(path)
    if folder not in names or not name:
        return False
    listed = names[folder]
    return name not in listed if listed is not None else _is_absent(folder, names)


ANSWERS: dict[str, Callable[[str], Any]] = {
    "data": _digest,
    "is_file": disk.is_file,
    "is_dir": disk.is_dir,
    "exists": disk.exists,
    "entries": _entries,
    "real": disk.real,
}
"""What may be asked of the disk."""


MAX_HELD = 100_000_000
"""Bytes of files that are held at most, besides those that were provided."""


class Files:
    """``files`` is what may be read besides what a document names; ``root`` is where paths count from.

    Names come from what files say, so that any text may be asked for. What is neither one of ``files`` nor, without
    links, in the root or in a folder of theirs does not exist here: nobody may learn what it holds.
    """

    def __init__(self, root: Path, files: Sequence[Path]) -> None:
        self.db = Db()
        self.root = root
        self._files = tuple(files)
        self._data: dict[Path, bytes] = {}
        self._held = 0
        """Bytes that were read from the disk and are held."""
        self._unreadable: dict[Path, str] = {}
        self._provided: dict[Path, bool] = {}
        self._tests: dict[Path, bool] = {}
        self._folders: dict[Path, frozenset[str]] = {}
        self.found: dict[bytes, bool] = {}
        """Whether some bytes are in any file."""
        self._above: dict[Path, Path] = {}
        self._interned: dict[Path, Path] = {}
        self.disk_asked: dict[str, set[Path]] = {question: set() for question in ANSWERS}
        """What was asked of the disk, by this process and its workers."""
        self.knows_all_asked = True
        """False once a worker died, as what it asked is unknown."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of the tree."""
        self.db.read("files", ())
        return self._files

    def data(self, path: Path) -> bytes:
        """Content of a file; empty if it cannot be read (:meth:`unreadable` says why)."""
        self.db.read_content(path)
        return self.content(path)

    def content(self, path: Path) -> bytes:
        """The same for an index, which answers other questions than this one; nothing is recorded."""
        known = self._data.get(path)
        if known is not None:
            return known
        self.disk_asked["data"].add(path)
        self._data[path] = b""
        try:
            if self._is_inside(path):
                self._keep(path, disk.read(path))
            else:
                self._unreadable[path] = "a link out of the project"
        except OSError as error:
            self._unreadable[path] = error.strerror or str(error)
        return self._data[path]

    def _keep(self, path: Path, data: bytes) -> None:
        """Hold the content of a file; beyond ``MAX_HELD`` bytes those that were read first are read again if needed."""
        self._data[path] = data
        self._held += len(data)
        if self._held > MAX_HELD:
            for other in [other for other in self._data if other not in self._provided and other != path]:
                self._held -= len(self._data.pop(other))
                if self._held <= MAX_HELD // 2:
                    break

    def unreadable(self, path: Path) -> str:
        """Return why a file could not be read; empty if it could."""
        self.data(path)
        return self._unreadable.get(path, "")

    @cached_property
    def _tops(self) -> frozenset[str]:
        """Without links, the root and the folders of files elsewhere, which somebody has named."""
        folders = {path.parent for path in self._files} - {self.root}
        return frozenset([disk.real(self.root), *map(disk.real, folders)])

    @cached_property
    def _own(self) -> dict[Path, Path]:
        return {path: path for path in self._files}

    def _is_inside(self, path: Path) -> bool:
        """Return whether a file or folder that exists is one of the tree, without links."""
        if path in self._own:
            return True
        self.disk_asked["real"].add(path)
        real = disk.real(path)
        return any(top in self._tops for top in (real, *map(str, Path(real).parents)))

    def kind(self, path: Path) -> Kind | None:
        """Kind of a file, by its name if that is enough, else by its first bytes; None if gpulint skips it."""
        return kind_of(path) or kind_of(path, self.data(path)[:4096])

    def is_utf16(self, path: Path) -> bool:
        """Return whether a file starts with the mark of UTF-16, in which bytes are no characters."""
        self.db.read_content(path)
        return self._is_utf16(self.content(path))

    @staticmethod
    def _is_utf16(data: bytes) -> bool:
        return data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

    def utf8(self, path: Path) -> bytes:
        """A file's bytes, in UTF-8 where they are in UTF-16, and with a notebook's line ends as such and its pictures
        left out: their megabytes of Base64 would count as identifiers."""
        self.db.read_content(path)
        return self.text_of(path)

    def text_of(self, path: Path) -> bytes:
        """The same for an index, which answers other questions than this one; nothing is recorded."""
        data = self.content(path)
        if self._is_utf16(data):
            data = data.decode("utf-16", "replace").encode("utf-8", "replace")
        return _ENCODED.sub(b'""', data).replace(rb"\n", b"\n") if path.suffix == ".ipynb" else data

    def provide(self, path: Path, data: bytes | None) -> None:
        """Use ``data`` instead of what the disk holds (standard input, unsaved text); None: there is no such file."""
        appears = self.is_file(path) != (data is not None)
        self.discard(path)
        self._data[path] = data or b""
        self._provided[path] = data is not None
        if appears:
            self._folders.clear()

    @property
    def provided(self) -> dict[Path, bytes | None]:
        """All that was provided."""
        return {path: self._data[path] if exists else None for path, exists in self._provided.items()}

    def replace(self, path: Path, data: bytes | None) -> None:
        """Use ``data`` for a file that exists, or what the disk holds, and keep what spans files."""
        self.forget(path)
        if data is not None:
            self._data[path], self._provided[path] = data, True

    def remember(self, path: Path, data: bytes) -> None:
        """Take ``data`` as what the disk holds, which somebody has read already."""
        self._data[path] = data
        self._held += len(data)

    def discard(self, path: Path) -> None:
        """Forget what was read of or provided for a file, so that the disk counts again."""
        self.forget(path)
        self.found.clear()

    def forget(self, path: Path) -> None:
        """The same, without what was looked up in the whole tree."""
        self._data.pop(path, None)
        self._unreadable.pop(path, None)
        self._tests.pop(path, None)
        self._provided.pop(path, None)

    @lookup("is_file")
    def is_file(self, path: Path) -> bool:
        """Return whether there is such a file, on disk or provided."""
        known = self._provided.get(path)
        if known is not None:
            return known
        self.disk_asked["is_file"].add(path)
        return disk.is_file(path) and self._is_inside(path)

    @lookup("is_dir")
    def is_dir(self, path: Path) -> bool:
        """Return whether there is such a folder."""
        self.disk_asked["is_dir"].add(path)
        return disk.is_dir(path) and self._is_inside(path)

    @lookup("exists")
    def exists(self, path: Path) -> bool:
        """Return whether there is anything of that name, on disk or provided."""
        if self._provided.get(path):
            return True
        self.disk_asked["exists"].add(path)
        return disk.exists(path) and self._is_inside(path)

    def disk_queries(self) -> dict[str, dict[str, Any]]:
        """Return what was asked of the disk besides the contents of ``files``: question -> path -> answer, fit for
        JSON."""
        answers = {
            question: {str(path): ANSWERS[question](str(path)) for path in sorted(paths) if path not in self._own}
            for question, paths in self.disk_asked.items()
        }
        # Most folders that a module is looked for in do not exist, which the names in the folder above say already.
        folders = answers["entries"]
        names = {path: None if found is None else frozenset(found) for path, found in folders.items()}
        answers["entries"] = {
            path: found for path, found in folders.items() if found is not None or not _is_absent(path, names)
        }
        return answers

    @property
    def loaded_files(self) -> list[Path]:
        """Files whose content was asked for so far."""
        return list(self._data.keys() | self.disk_asked["data"])

    @cached_property
    def python_set(self) -> frozenset[Path]:
        """The same, as a set."""
        return frozenset(self.all_python)

    def place(self, path: Path) -> str:
        """A file's path from the root, as folders around the root say nothing of the project; "" outside of it."""
        text = str(path)  # the methods of paths take ten times as long
        return text[len(self._prefix) :].replace(os.sep, "/") if text.startswith(self._prefix) else ""

    @cached_property
    def _prefix(self) -> str:
        return os.path.join(self.root, "")  # noqa: PTH118 - with a separator at its end

    @lookup("is_test")
    def is_test(self, path: Path) -> bool:
        """Return whether a file is a test by its path from the root. Tests hold no GPUs for long, so they are silent by
        default. A program ``test_net.py`` that evaluates a trained model is none."""
        known = self._tests.get(path)
        if known is None:
            place = self.place(path)
            known = self._tests[path] = bool(_TEST_FOLDERS.search(place)) or (
                bool(_TESTS.search(place)) and not self._evaluates(path)
            )
        return known

    def _evaluates(self, path: Path) -> bool:
        """Return whether a file named after a test is a program that tests a model (``test_net.py``), or trains and
        tests it (``train_and_test.py``)."""
        if path.suffix != ".py":
            return False
        data = self.data(path)
        if _ASSERTS.search(data):
            return False
        return all(pattern.search(data) for pattern in _EVALUATES) or ("train" in path.stem and b"backward(" in data)

    def folder(self, path: Path) -> Path:
        """The folder of a file or folder, always the same object: that is far faster to look up than an equal one."""
        known = self._above.get(path)
        if known is None:
            folder = path.parent
            known = self._above[path] = self._interned.setdefault(folder, folder)
        return known

    def own_path(self, path: Path) -> Path:
        """A file of the tree as the object that stands for it in ``files``; another one as it is."""
        return self._own.get(path, path)

    @lookup("entries")
    def entries(self, folder: Path) -> frozenset[str]:
        """Names in a folder; empty if there is none."""
        return self._entries(folder)

    def _entries(self, folder: Path) -> frozenset[str]:
        known = self._folders.get(folder)
        if known is None:
            self.disk_asked["entries"].add(folder)
            found = _entries(str(folder))
            names = set(found) if found and self._is_inside(folder) else set()
            for path, exists in self._provided.items():
                if path.parent == folder and not exists:
                    names.discard(path.name)
                elif exists and path.is_relative_to(folder) and path != folder:
                    names.add(path.relative_to(folder).parts[0])
            known = self._folders[folder] = frozenset(names)
        return known

    @lookup("has")
    def has(self, text: bytes) -> bool:
        """Return whether some bytes are in any file of the tree."""
        if text not in self.found:
            self.found[text] = any(text in self.content(path) for path in self._files)
        return self.found[text]

    @property
    def python_files(self) -> tuple[Path, ...]:
        """Python files and notebooks, sorted by path."""
        self.db.read("python_files", ())
        return self.all_python

    @cached_property
    def all_python(self) -> tuple[Path, ...]:
        """The same, unrecorded."""
        return tuple(sorted(path for path in self._files if kind_of(path) in (Kind.PYTHON, Kind.NOTEBOOK)))
