"""The documents and Python modules of one tree, read and parsed when somebody asks."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from gpulint import regex
from gpulint.documents import kind_of, load
from gpulint.documents.base import Document
from gpulint.failures import Failure, LimitReached, is_about_file
from gpulint.libraries import BUILT_IN, Models
from gpulint.query import lookup, query
from gpulint.reads import Raised
from gpulint.rule import Kind
from gpulint.workspace.imports import imported_names
from gpulint.workspace.summaries import Definition, Summary, bound, callers, calls
from gpulint.workspace.training_words import TrainingWords
from gpulint.workspace.users import Users
from gpulint.workspace.word_index import WordIndex, word_of

if TYPE_CHECKING:
    from gpulint.config import Config
    from gpulint.workspace.module_index import Binding, ModuleIndex

MAX_STARS = 5
"""How many star imports are followed one after the other."""

_STAR = regex.compile(rb"\bimport[\s\\]*\*")
OF_ONE_FILE = (
    "_data", "_unreadable", "_provided", "_documents", "_module_indexes", "_stars", "_imports", "_bound_imports",
    "_summaries",
)  # fmt: skip
"""Caches by path whose values depend on that one file alone, and on the rows of models."""
_OF_BYTES = OF_ONE_FILE[:3]
"""Those of them that depend on no rows."""


class Tree(Users):
    """``files`` is what may be read besides what a document names; ``root`` is where dotted module names start."""

    def __init__(self, root: Path, files: Sequence[Path], config: Config) -> None:
        super().__init__(root, files)
        self.config = config
        self.models = Models(config.models) if config.models else BUILT_IN
        self.explicit_files: Container[Path] = ()
        """Python files that are parsed even if no rule can fire in them, for the sake of syntax errors."""
        self.use_byte_gate = True
        """False runs every rule on every file of its kinds, which finds the same and takes longer."""
        self.word_index = WordIndex(self)
        self._failures: dict[tuple[Path, str], Failure] = {}
        self._documents: dict[Path, Document | None] = {}
        self._module_indexes: dict[Path, ModuleIndex | None] = {}
        self._imports: dict[Path, tuple[str, ...]] = {}
        self._bound_imports: dict[Path, tuple[str, ...] | None] = {}
        self._stars: dict[Path, tuple[str, ...]] = {}
        self._imported: dict[Path, frozenset[Path]] = {}
        self._summaries: dict[Path, Summary] = {}
        self._asked_of_summary: set[Path] = set()

    def successor(
        self, changed: Iterable[Path], files: Sequence[Path] | None = None, config: Config | None = None
    ) -> Self:
        """This tree after ``changed`` got another content: what was read of any other single file is kept.

        All that spans files is asked anew. Both trees stay usable, since what they share depends on no other file.
        """
        tree = type(self)(self.root, self.files if files is None else files, config or self.config)
        tree.explicit_files, tree.use_byte_gate = self.explicit_files, self.use_byte_gate
        same = config is None or config.models == self.config.models
        for name in OF_ONE_FILE if same else _OF_BYTES:
            setattr(tree, name, getattr(self, name).copy())
        tree.word_index.adopt(self.word_index)
        for path in changed:
            tree.discard(path)
        return tree

    def discard(self, path: Path) -> None:
        """Forget what was read of or provided for a file, so that the disk counts again."""
        super().discard(path)
        self.word_index.discard(path)

    def forget(self, path: Path) -> None:
        """The same, without what was looked up in the whole tree."""
        super().forget(path)
        self.word_index.forget(path)
        for name in ("_imported", *OF_ONE_FILE[len(_OF_BYTES) :]):
            getattr(self, name).pop(path, None)

    @contextlib.contextmanager
    def containing(self, path: Path, where: str) -> Iterator[None]:
        """Keep what is raised inside to one file, so that a fact of the whole tree lacks that file alone."""
        try:
            yield
        except Exception as error:
            if not is_about_file(error):
                raise
            self.fail(path, where, error)

    def fail(self, path: Path, where: str, error: Exception) -> None:
        """Record an exception that cost (a part of) one file; of equal ones the first counts."""
        failure = self._failures.setdefault((path, where), Failure(path, where, error))
        self.db.keeps_reads = True
        self.db.reads.append(Raised(failure))

    def limit(self, path: Path, what: str) -> None:
        """Record that the analysis of a file was cut short, as a note: ``what`` names what there is too much of."""
        self.fail(path, what, LimitReached(what))

    @property
    def has_failures(self) -> bool:
        """Whether anything was contained."""
        return bool(self._failures)

    def is_named(self, path: Path) -> bool:
        """Return whether a file is one of ``named``."""
        self.db.read("named", (path,))
        return path in self.explicit_files

    def take_failures(self) -> list[Failure]:
        """Return what was contained, by path."""
        return [self._failures[key] for key in sorted(self._failures)]

    def document(self, path: Path) -> Document | None:
        """The document of ``path``; None if it is of no kind that gpulint reads."""
        self.db.read_content(path)
        return self.load(path)

    def load(self, path: Path) -> Document | None:
        """The same for who looks at no more than its syntax tree; nothing is recorded."""
        if path not in self._documents:
            data = self.content(path)
            kind = kind_of(path, data[:4096])
            self._documents[path] = None if kind is None else load(path, data, kind, self.models)
        return self._documents[path]

    # -- Python modules ------------------------------------------------------------------------------------------------

    def module(self, document: Document) -> ModuleIndex | None:
        """Names and index of a document's Python; None if it has none or cannot be parsed."""
        path = document.path
        self.db.read_syntax(path)
        if path not in self._module_indexes:
            found, syntax = None, document.python
            if syntax is not None:
                from gpulint.workspace.index_builder import index_module

                try:
                    found = index_module(syntax, self.module_name(path))
                except RecursionError as error:
                    if not is_about_file(error):
                        raise
                    document.problem("nested too deeply to be analysed; skipped", is_error=False)
                except Exception as error:
                    document.failures.append(Failure(path, "reader", error))
            if found is not None:
                found.report_limit = partial(self.limit, path)
                if self.db.tracks_syntax:
                    found.track_text(partial(self.db.read_content, path))
            self._module_indexes[path] = found  # only now, as an editor may interrupt this anywhere
        return self._module_indexes[path]

    @property
    def module_indexes(self) -> dict[Path, ModuleIndex | None]:
        """The modules that somebody has asked for."""
        return self._module_indexes

    def module_at(self, path: Path) -> ModuleIndex | None:
        """Names and index of the module in a file."""
        document = self.load(path)
        if document is None:
            self.db.read_content(path)
        return self.module(document) if document is not None else None

    def find(self, name: str, module: ModuleIndex) -> list[tuple[ModuleIndex, Binding]]:
        """Top-level bindings of the tree that an absolute dotted name means when ``module`` imports it."""
        itself = name.split(".", 1)[0] == module.path.stem
        return self._find_definitions(name, str(module.path) if itself else f"{module.folder}/*")

    @query
    def _find_definitions(self, name: str, importer: str) -> list[tuple[ModuleIndex, Binding]]:
        head, _, last = name.rpartition(".")
        path = self.module_path(head, Path(importer)) if head else None
        return self._bound_in(path, head, last) if path is not None else []

    def _bound_in(self, path: Path, origin: str, name: str, depth: int = 0) -> list[tuple[ModuleIndex, Binding]]:
        """Return what a module binds to a name, itself or by a star import; a file that doesn't hold the name isn't
        parsed."""
        where = self.module_at(path) if not name.isascii() or self.word_index.holds(path, word_of(name)) else None
        if where is not None and (bindings := where.top.bindings.get(name)):
            return [(where, binding) for binding in bindings]
        for target in self._starred(path) if depth <= MAX_STARS else ():
            there = self.module_path(target, path) if target != origin else None
            if there is not None and (found := self._bound_in(there, target, name, depth + 1)):
                return found
        return []

    def definition_of(self, name: str, importer: Path) -> tuple[Path, str] | None:
        """The file, and the name in it, of what an absolute dotted name means when a module imports it (see
        :meth:`find`)."""
        head, _, last = name.rpartition(".")
        itself = name.split(".", 1)[0] == importer.stem
        path = (
            self.module_path(head, importer if itself else self._importer_in(self.folder(importer))) if head else None
        )
        return self._defined_in(path, head, last) if path is not None else None

    def _defined_in(self, path: Path, origin: str, name: str, depth: int = 0) -> tuple[Path, str] | None:
        if (not name.isascii() or self.word_index.holds(path, word_of(name))) and self.bound(path, name) != ():
            return path, name
        for target in self._starred(path) if depth <= MAX_STARS else ():
            there = self.module_path(target, path) if target != origin else None
            if there is not None and (found := self._defined_in(there, target, name, depth + 1)):
                return found
        return None

    @lookup("bound")
    def bound(self, path: Path, name: str) -> tuple[Definition, ...] | None:
        """Return what a module binds a name to at its top; None if that may be more than imports and definitions."""
        found = self._summarized(path)
        return () if found is None else found.bound(name) if isinstance(found, Summary) else bound(found, name)

    @lookup("callers")
    def callers(self, path: Path, name: str) -> frozenset[str]:
        """Return from where a module calls what it knows by a name (see :mod:`gpulint.workspace.summaries`)."""
        found = self._summarized(path)
        if found is None:
            return frozenset()
        return found.callers(name) if isinstance(found, Summary) else callers(found, name)

    @lookup("calls")
    def calls(self, path: Path, name: str) -> bool | None:
        """Return whether a module calls what it knows by a name, or hands it to a call; None if there is no module."""
        found = self._summarized(path)
        return None if found is None else found.calls(name) if isinstance(found, Summary) else calls(found, name)

    def _summarized(self, path: Path) -> ModuleIndex | Summary | None:
        """A module, or its summary if an earlier run has made one and it is not parsed."""
        if path not in self._module_indexes and path in self._summaries:
            return self._summaries[path]
        self._asked_of_summary.add(path)
        return self.module_at(path)

    def summary(self, path: Path) -> str:
        """Return what questions of these kinds need of a module, for :meth:`learn`; empty if nobody has asked any."""
        module = self._module_indexes.get(path) if path in self._asked_of_summary else None
        if module is not None and path not in self._summaries:
            self._summaries[path] = Summary.of(module)
        known = self._summaries.get(path)
        return known.text if known is not None else ""

    def known_imports(self, path: Path) -> tuple[str, ...] | None:
        """Return what :meth:`bound_imports` found, for :meth:`learn`; None if nobody has asked, or it is no module."""
        return self._bound_imports.get(path)

    def known_modules(self) -> Iterator[tuple[Path, str, tuple[str, ...] | None]]:
        """Return what :meth:`learn` takes of each module that somebody has asked such questions of."""
        for path in sorted({*self._asked_of_summary, *self._bound_imports}):
            yield path, self.summary(path), self.known_imports(path)

    def learn(self, path: Path, summary: str, imports: Iterable[str] | None) -> None:
        """Take over what :meth:`summary` and :meth:`known_imports` said of a file of the very same content."""
        if summary:
            self._summaries[path] = Summary(summary)
        if imports is not None:
            self._bound_imports[path] = tuple(imports)

    @lookup("stars")
    def _starred(self, path: Path) -> tuple[str, ...]:
        """Absolute names of the modules that a module imports all of, in order."""
        if path not in self._stars:
            data = self.text_of(path)
            stars = self._imports_of(path) if b"*" in data and _STAR.search(data) else ()
            self._stars[path] = tuple(self.absolute(name[:-2], path) for name in stars if name.endswith(".*"))
        return self._stars[path]

    @lookup("contains")
    def contains(self, path: Path, text: bytes) -> bool:
        """Return whether some bytes are in a file. What rests on that, unlike on ``data``, stays valid while the
        answer is the same."""
        return text in self.content(path)

    def finds(self, path: Path, pattern: re.Pattern[bytes]) -> bool:
        """Return whether there is a match in a file's bytes; the same holds for what rests on that."""
        return self._finds(path, pattern.pattern, pattern.flags)

    @lookup("finds")
    def _finds(self, path: Path, pattern: bytes, flags: int) -> bool:
        return re.compile(pattern, flags).search(self.content(path)) is not None

    @query
    def training_modules(self) -> tuple[ModuleIndex, ...]:
        """Modules whose bytes say that they may train or evaluate a model or feed one."""
        found = map(self.module_at, self.training_files())
        return tuple(module for module in found if module is not None)

    @lookup("training")
    def training_files(self) -> tuple[Path, ...]:
        """Their files."""
        return self.word_index.feeding(self.models.derived(TrainingWords).feeds)

    def python_text(self, path: Path) -> str:
        """The Python of a file: all of it, or a notebook's code; empty where there is none."""
        document = self.document(path)
        if document is None or document.kind is Kind.PYTHON:
            return document.source.text if document is not None else ""
        return document.python.source.text if document.python is not None else ""

    @lookup("imports")
    def imports(self, path: Path) -> tuple[str, ...]:
        """Dotted names that a module imports, as it writes them; most modules are not parsed for that."""
        return self._imports_of(path)

    def _imports_of(self, path: Path) -> tuple[str, ...]:
        if path not in self._imports:
            if kind_of(path) is Kind.PYTHON and not self.is_utf16(path):
                self._imports[path] = imported_names(self.content(path))
            else:
                module = self.module_at(path)
                self._imports[path] = tuple(binding.target for binding in module.imports) if module is not None else ()
        return self._imports[path]

    @lookup("bound imports")
    def bound_imports(self, path: Path) -> tuple[str, ...] | None:
        """Return the same for a module that can be parsed, from its tree; None if it is none."""
        if path not in self._bound_imports:
            module = self.module_at(path)
            found = None if module is None else tuple(binding.target for binding in module.imports)
            self._bound_imports[path] = found
        return self._bound_imports[path]

    @lookup("imported")
    def imported(self, path: Path) -> frozenset[Path]:
        """Modules of the tree that a module imports itself."""
        if path not in self._imported:
            found = set[Path]()
            for written in self._imports_of(path):
                target = self.absolute(written, path).removesuffix(".*")
                for name in (target, target.rpartition(".")[0]):
                    if name and (there := self.module_path(name, path)) is not None:
                        found.add(there)
            self._imported[path] = frozenset(found - {path})
        return self._imported[path]
