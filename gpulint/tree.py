"""The documents and Python modules of one tree, read and parsed when somebody asks."""

from __future__ import annotations

import codecs
import hashlib
import os
import re
from collections.abc import Callable, Container, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from gpulint.documents import kind_of, load
from gpulint.documents.base import Document
from gpulint.rule import Kind

if TYPE_CHECKING:
    from gpulint.config import Config
    from gpulint.facts.scopes import Binding, ModuleScopes

MAX_USERS = 150
"""Most modules that are searched for callers of one function."""
MAX_SEARCHES = 60
"""Identifiers that are searched for one by one; for more of them an index of all identifiers pays off."""
MAX_STARS = 5
"""How many star imports are followed one after the other."""

_EVIDENCE = b"DataLoader backward training_step dataloader train_loader data_loader loader".split()
_NO_GRADIENTS, _EVALUATES = b"no_grad inference_mode".split(), b"evaluate validate evaluation inference predict".split()
_STAR = re.compile(rb"\bimport[\s\\]*\*")
_IMPORT = re.compile(rb"\n[ \t]*(?:from|import)[ \t][^\n(]*(?:\([^)]*|[^\n]*)")
_TESTS = re.compile(
    r"(^|/)(tests?|test_?data|testing|unit_tests|functional_tests|test_utils|ci)/"
    r"|(^|/)(test_[^/]*|[^/]*[_-]tests?|conftest)\.(py|ipynb|sh|ya?ml)$"
)
_WORD = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")
_APART = bytes(byte if byte < 128 and (chr(byte).isalnum() or byte == 95) else 32 for byte in range(256))
"""Turns everything that no identifier holds into spaces."""
_OF_ONE_FILE = ("_data", "_provided", "_documents", "_scopes", "_vocabulary", "_import_words", "_stars")
"""Caches by path whose values depend on that one file alone."""


def _digest(path: str) -> str | None:
    try:
        return hashlib.blake2b(Path(path).read_bytes(), digest_size=16).hexdigest()
    except OSError:
        return None


def _entries(path: str) -> list[str] | None:
    try:
        # The cache itself is no answer to anything.
        return sorted(name for name in os.listdir(path) if name != ".gpulint_cache")  # noqa: PTH208 - just names
    except OSError:
        return None


ANSWERS: dict[str, Callable[[str], Any]] = {
    "data": _digest,
    "is_file": os.path.isfile,
    "is_dir": os.path.isdir,
    "exists": os.path.exists,
    "entries": _entries,
}
"""What may be asked of the disk."""


class Tree:
    """``files`` is what may be read besides what a document names; ``root`` is where dotted module names start."""

    def __init__(self, root: Path, files: Sequence[Path], config: Config) -> None:
        self.root = root
        self.files = tuple(files)
        self.config = config
        self.named: Container[Path] = ()
        """Python files that are parsed even if no rule can fire in them, for the sake of syntax errors."""
        self.gated = True
        """False runs every rule on every file of its kinds, which finds the same and takes longer."""
        self._data: dict[Path, bytes] = {}
        self._provided: dict[Path, bool] = {}
        self._documents: dict[Path, Document | None] = {}
        self._scopes: dict[Path, ModuleScopes | None] = {}
        self._module_paths: dict[Path, dict[str, Path | None]] = {}
        self._paths_from: dict[Path, dict[str, Path | None]] = {}
        self._definitions: dict[tuple[str, str], list[tuple[ModuleScopes, Binding]]] = {}
        self._import_words: dict[Path, frozenset[bytes]] = {}
        self._vocabulary: dict[Path, bytes] = {}
        self._mentions: dict[bytes, list[int]] = {}
        self._tests: dict[Path, bool] = {}
        self._stars: dict[Path, tuple[str, ...]] = {}
        self._importers: dict[frozenset[bytes], frozenset[int]] = {}
        self._folders: dict[Path, frozenset[str]] = {}
        self._found: dict[bytes, bool] = {}
        self._asked: dict[str, set[Path]] = {question: set() for question in ANSWERS}
        self._imported: dict[Path, frozenset[Path]] = {}

    def data(self, path: Path) -> bytes:
        """Content of a file; empty if it cannot be read (the engine reports that)."""
        if path not in self._data:
            self._asked["data"].add(path)
            try:
                self._data[path] = path.read_bytes()
            except OSError:
                self._data[path] = b""
        return self._data[path]

    def is_utf16(self, path: Path) -> bool:
        """Does a file start with the mark of UTF-16, in which bytes are no characters?"""
        return self.data(path)[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

    def utf8(self, path: Path) -> bytes:
        """A file's bytes, in UTF-8 where they are in UTF-16, and with a notebook's line ends as such."""
        data = self.data(path)
        if self.is_utf16(path):
            data = data.decode("utf-16", "replace").encode("utf-8", "replace")
        return data.replace(rb"\n", b"\n") if path.suffix == ".ipynb" else data

    def provide(self, path: Path, data: bytes | None) -> None:
        """Use ``data`` instead of what the disk holds (standard input, unsaved text); None: there is no such file."""
        appears = self.is_file(path) != (data is not None)
        self.discard(path)
        self._data[path] = data or b""
        self._provided[path] = data is not None
        if appears:
            for listing in (self._folders, self._module_paths, self._paths_from):
                listing.clear()

    def remember(self, path: Path, data: bytes) -> None:
        """Take ``data`` as what the disk holds, which somebody has read already."""
        self._data[path] = data

    def discard(self, path: Path) -> None:
        """Forget what was read of or provided for a file, so that the disk counts again."""
        for name in (*_OF_ONE_FILE, "_imported"):
            getattr(self, name).pop(path, None)
        for index in (self._definitions, self._mentions, self._importers, self._found):
            index.clear()
        for name in ("_by_word", "_by_import"):
            self.__dict__.pop(name, None)

    def successor(
        self, changed: Iterable[Path], files: Sequence[Path] | None = None, config: Config | None = None
    ) -> Self:
        """This tree after ``changed`` got another content: what was read of any other single file is kept.

        All that spans files is asked anew. Both trees stay usable, since what they share depends on no other file.
        """
        tree = type(self)(self.root, self.files if files is None else files, config or self.config)
        tree.named, tree.gated = self.named, self.gated
        for name in _OF_ONE_FILE:
            setattr(tree, name, getattr(self, name).copy())
        for path in changed:
            tree.discard(path)
        return tree

    def is_file(self, path: Path) -> bool:
        """Is there such a file, on disk or provided?"""
        known = self._provided.get(path)
        if known is not None:
            return known
        self._asked["is_file"].add(path)
        return path.is_file()

    def is_dir(self, path: Path) -> bool:
        """Is there such a folder?"""
        self._asked["is_dir"].add(path)
        return path.is_dir()

    def exists(self, path: Path) -> bool:
        """Is there anything of that name?"""
        self._asked["exists"].add(path)
        return path.exists()

    def asked(self) -> dict[str, dict[str, Any]]:
        """What was asked of the disk besides the contents of ``files``: question -> path -> answer, fit for JSON."""
        own = frozenset(self.files)
        return {
            question: {str(path): ANSWERS[question](str(path)) for path in sorted(paths) if path not in own}
            for question, paths in self._asked.items()
        }

    @property
    def seen(self) -> list[Path]:
        """Files whose content was asked for so far."""
        return list(self._data)

    def is_test(self, path: Path) -> bool:
        """Is a file a test by its path from the root? Tests hold no GPUs for long, so they are silent by default."""
        if path not in self._tests:
            inside = path.is_relative_to(self.root)
            self._tests[path] = inside and bool(_TESTS.search(path.relative_to(self.root).as_posix()))
        return self._tests[path]

    def document(self, path: Path) -> Document | None:
        """The document of ``path``; None if it is of no kind that gpulint reads."""
        if path not in self._documents:
            data = self.data(path)
            kind = kind_of(path, data[:4096])
            self._documents[path] = None if kind is None else load(path, data, kind)
        return self._documents[path]

    # -- Python modules ------------------------------------------------------------------------------------------------

    def scopes(self, document: Document) -> ModuleScopes | None:
        """Names and index of a document's Python; None if it has none or cannot be parsed."""
        path = document.path
        if path not in self._scopes:
            self._scopes[path] = None
            module = document.python
            if module is not None:
                from gpulint.facts.collecting import collect_scopes

                try:
                    self._scopes[path] = collect_scopes(module, self.module_name(path))
                except RecursionError:
                    document.problem("nested too deeply to be analysed; skipped", is_error=False)
        return self._scopes[path]

    def scopes_at(self, path: Path) -> ModuleScopes | None:
        """Names and index of the module in a file."""
        document = self.document(path)
        return self.scopes(document) if document is not None else None

    def module_name(self, path: Path) -> str:
        """Dotted name of a file from the root (``pkg/sub/__init__.py`` is ``pkg.sub``)."""
        try:
            parts = list(path.relative_to(self.root).with_suffix("").parts)
        except ValueError:
            parts = [path.stem]
        if parts[-1] == "__init__" and len(parts) > 1:
            parts.pop()
        return ".".join(parts)

    def absolute(self, target: str, scopes: ModuleScopes) -> str:
        """Absolute form of an import target; relative ones count from the importing module's folder."""
        level = len(target) - len(target.lstrip("."))
        if level == 0:
            return target
        folder = scopes.path.parent
        for _ in range(level - 1):
            folder = folder.parent
        try:
            base = ".".join(folder.relative_to(self.root).parts)
        except ValueError:
            base = ""
        return f"{base}.{target[level:]}".strip(".")

    def find(self, name: str, scopes: ModuleScopes) -> list[tuple[ModuleScopes, Binding]]:
        """Top-level bindings of the tree that an absolute dotted name means when ``scopes`` imports it."""
        key = scopes.folder, name
        if key not in self._definitions:
            self._definitions[key] = self._find_definitions(name, scopes)
        return self._definitions[key]

    def _find_definitions(self, name: str, scopes: ModuleScopes) -> list[tuple[ModuleScopes, Binding]]:
        head, _, last = name.rpartition(".")
        path = self.module_path(head, scopes.path) if head else None
        return self._bound_in(path, head, last) if path is not None else []

    def _bound_in(self, path: Path, module: str, name: str, depth: int = 0) -> list[tuple[ModuleScopes, Binding]]:
        """What a module binds to a name, itself or by a star import; a file that doesn't hold the name isn't parsed."""
        where = self.scopes_at(path) if not name.isascii() or self.holds(path, name.encode()) else None
        if where is not None and (bindings := where.top.bindings.get(name)):
            return [(where, binding) for binding in bindings]
        for target in self._starred(path) if depth <= MAX_STARS else ():
            there = self.module_path(target, path) if target != module else None
            if there is not None and (found := self._bound_in(there, target, name, depth + 1)):
                return found
        return []

    def _starred(self, path: Path) -> tuple[str, ...]:
        """Absolute names of the modules that a module imports all of, in order."""
        if path not in self._stars:
            data = self.utf8(path)
            where = self.scopes_at(path) if b"*" in data and _STAR.search(data) else None
            stars = where.top.bindings.get("*", []) if where is not None else []
            self._stars[path] = tuple(self.absolute(star.target[:-2], where) for star in stars if where is not None)
        return self._stars[path]

    def module_path(self, name: str, importer: Path) -> Path | None:
        """File of an absolute module name: beside the importer first, then in the folders above it up to the root."""
        known = self._paths_from.get(importer)
        if known is None:  # modules of one folder share what is found from there
            known = self._paths_from[importer] = self._module_paths.setdefault(importer.parent, {})
        if name not in known:
            known[name] = self._search_module(name, importer.parent)
        return known[name]

    def _search_module(self, name: str, folder: Path) -> Path | None:
        parts = name.split(".")
        while True:
            for base in (folder, folder / "src") if "src" in self._entries(folder) else (folder,):
                if not {parts[0], f"{parts[0]}.py"} & self._entries(base):
                    continue
                target = base.joinpath(*parts)
                if f"{target.name}.py" in self._entries(target.parent):
                    return target.with_name(f"{target.name}.py")
                if "__init__.py" in self._entries(target):
                    return target / "__init__.py"
            if folder == self.root or folder == folder.parent or not folder.is_relative_to(self.root):
                return None
            folder = folder.parent

    def _entries(self, folder: Path) -> frozenset[str]:
        """Names in a folder; empty if there is none."""
        if folder not in self._folders:
            try:
                self._asked["entries"].add(folder)
                names = {entry.name for entry in folder.iterdir()}
            except OSError:
                names = set()
            for path, exists in self._provided.items():
                if path.parent == folder and not exists:
                    names.discard(path.name)
                elif exists and path.is_relative_to(folder) and path != folder:
                    names.add(path.relative_to(folder).parts[0])
            self._folders[folder] = frozenset(names)
        return self._folders[folder]

    def users_of(self, scopes: ModuleScopes, names: Iterable[str]) -> list[ModuleScopes]:
        """Modules whose text holds one of ``names`` and the module's own (or its package's) name; bounded."""
        wanted = {name.encode() for name in names}
        if not wanted:
            return []
        found = [scopes]
        importing = self._importing(self._home(scopes.path, scopes.name))
        users = {number for name in wanted for number in self._mentioning(name) if number in importing}
        for number in sorted(users):
            path = self.python_files[number]
            if path == scopes.path:
                continue
            if len(found) > MAX_USERS:
                break
            if (other := self.scopes_at(path)) is not None:
                found.append(other)
        return found

    def _home(self, path: Path, name: str) -> frozenset[bytes]:
        """What files that use a module have on an import line."""
        home = frozenset({name.rsplit(".", 1)[-1].encode()})
        package = path.parent / "__init__.py"
        # Users of what is re-exported name the package.
        return home | {path.parent.name.encode()} if home & self.imported_words(package) else home

    def mentioning(self, word: bytes) -> list[Path]:
        """Python files that hold an identifier, in order."""
        files = self.python_files
        return [files[number] for number in self._mentioning(word)]

    def _mentioning(self, word: bytes) -> Sequence[int]:
        if word not in self._mentions:
            if "_by_word" in self.__dict__ or len(self._mentions) > MAX_SEARCHES:
                return self._by_word.get(word, ())
            whole, vocabulary = b"\n%b\n" % word, self.vocabulary
            self._mentions[word] = [
                number for number, path in enumerate(self.python_files) if whole in vocabulary(path)
            ]
        return self._mentions[word]

    @cached_property
    def _by_word(self) -> dict[bytes, list[int]]:
        """Identifier -> positions of the Python files that hold it."""
        table: dict[bytes, list[int]] = {}
        for number, path in enumerate(self.python_files):
            for word in self.vocabulary(path).split():
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
        for number, path in enumerate(self.python_files):
            for word in self.imported_words(path):
                table.setdefault(word, []).append(number)
        return table

    def imported_words(self, path: Path) -> frozenset[bytes]:
        """Identifiers in the import statements of a file's bytes."""
        if path not in self._import_words:
            data = self.data(path)
            lines = _IMPORT.findall(b"\n" + data.removeprefix(b"\xef\xbb\xbf")) if b"import" in data else []
            self._import_words[path] = frozenset(word for line in lines for word in _WORD.findall(line))
        return self._import_words[path]

    def vocabulary(self, path: Path) -> bytes:
        """The identifiers in a file's bytes, each once and on a line of its own."""
        known = self._vocabulary.get(path)
        if known is None:
            words = set(self.utf8(path).translate(_APART).split())
            known = self._vocabulary[path] = b"\n%b\n" % b"\n".join(words)
        return known

    def has(self, text: bytes) -> bool:
        """Are some bytes in any file of the tree?"""
        if text not in self._found:
            self._found[text] = any(text in self.data(path) for path in self.files)
        return self._found[text]

    def holds(self, path: Path, word: bytes) -> bool:
        """Is an identifier in a file's bytes?"""
        return b"\n%b\n" % word in self.vocabulary(path)

    def words(self, path: Path) -> frozenset[bytes]:
        """Identifiers in a file's bytes."""
        return frozenset(self.vocabulary(path).split())

    @cached_property
    def training_modules(self) -> tuple[ModuleScopes, ...]:
        """Modules whose bytes say that they may train or evaluate a model or feed one."""
        found = (self.scopes_at(path) for path in self.python_files if self._feeds(path))
        return tuple(scopes for scopes in found if scopes is not None)

    def _feeds(self, path: Path) -> bool:
        return any(self.holds(path, word) for word in _EVIDENCE) or (
            any(self.holds(path, word) for word in _NO_GRADIENTS) and any(self.holds(path, word) for word in _EVALUATES)
        )

    @cached_property
    def python_files(self) -> tuple[Path, ...]:
        """Python files and notebooks, sorted by path."""
        return tuple(sorted(path for path in self.files if kind_of(path) in (Kind.PYTHON, Kind.NOTEBOOK)))

    def imported(self, path: Path) -> frozenset[Path]:
        """Modules of the tree that a module imports itself."""
        if path not in self._imported:
            scopes, found = self.scopes_at(path), set[Path]()
            for binding in scopes.imports if scopes is not None else ():
                target = self.absolute(binding.target, scopes).removesuffix(".*") if scopes is not None else ""
                for name in (target, target.rpartition(".")[0]):
                    if name and (there := self.module_path(name, path)) is not None:
                        found.add(there)
            self._imported[path] = frozenset(found - {path})
        return self._imported[path]
