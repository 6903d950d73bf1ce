"""Which modules of a tree may use what another one defines, told from their bytes."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.query import lookup, query
from gpulint.workspace.module_paths import ModulePaths
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.workspace.module_index import ModuleIndex
    from gpulint.workspace.word_index import WordIndex

MAX_USERS = 150
"""Most modules that are searched for callers of one function."""


class Users(ModulePaths):
    """The Python modules of one tree by what they mention and import."""

    word_index: WordIndex

    @abstractmethod
    def module_at(self, path: Path) -> ModuleIndex | None:
        """Names and index of the module in a file."""

    @abstractmethod
    def calls(self, path: Path, name: str) -> bool | None:
        """Return whether a module calls what it knows by a name, or hands it to a call; None if there is no module."""

    @lookup("python files with")
    def python_files_with(self, text: bytes) -> tuple[Path, ...]:
        """Python files and notebooks whose bytes hold ``text``."""
        return tuple(path for path in self.all_python if text in self.content(path))

    @lookup("files with")
    def files_with(self, text: bytes) -> tuple[Path, ...]:
        """Files of any kind whose bytes hold ``text``, but for compiled modules."""
        return tuple(path for path in self._files if path.suffix != ".pyc" and text in self.content(path))

    @lookup("notebooks")
    def notebooks(self) -> tuple[Path, ...]:
        """All notebooks."""
        return tuple(path for path in self.all_python if path.suffix == ".ipynb")

    @lookup("in other files")
    def is_in_other_files(self, word: bytes) -> bool:
        """Return whether some bytes are in a file that is no Python module, compiled or not."""
        return any(word in self.content(path) for path in self._files if path.suffix not in (".py", ".pyc"))

    @lookup("like in other files")
    def is_like_in_other_files(self, pattern: bytes) -> bool:
        """Return whether there is a match in a file that is no Python module."""
        found = re.compile(pattern).search
        return any(found(self.content(path)) for path in self._files if path.suffix not in (".py", ".pyc"))

    def users_of(self, module: ModuleIndex, names: Iterable[str]) -> Iterator[ModuleIndex]:
        """Modules whose text holds one of ``names`` and the module's own (or its package's) name; bounded.

        Each is parsed when it is asked for, so whoever has seen enough of them can stop.
        """
        return self._users(module, frozenset(names), None, lambda path: self.module_at(path) is not None)

    def callers_of(
        self, module: ModuleIndex, names: Iterable[str], owner: str | None = None, *, tests: bool = True
    ) -> Iterator[ModuleIndex]:
        """Those of them that call what they know by one of the names, or hand it to a call; ``tests`` only if told.

        For methods of a class ``owner`` only those that name the class or define a subclass of it. What rests on this
        stays valid while the others go on to call nothing of that name, whatever else changes in them.
        """
        wanted = frozenset(names)

        def calls(path: Path) -> bool | None:
            if not tests and self.is_test(path):
                return False
            found = [self.calls(path, name) for name in sorted(wanted)]
            return None if None in found else any(found)

        return self._users(module, wanted, owner, calls)

    def _users(
        self, module: ModuleIndex, names: frozenset[str], owner: str | None, admits: Callable[[Path], bool | None]
    ) -> Iterator[ModuleIndex]:
        """Yield users that ``admits`` is true of; False counts as a user all the same."""
        wanted = frozenset(word_of(name) for name in names)
        if not wanted:
            return
        yield module
        found = 1
        for path in self.word_index.users(wanted, self._home(module.path)):
            if path == module.path or (owner is not None and not self._knows_class(path, word_of(owner))):
                continue
            if found > MAX_USERS:
                break
            admitted = admits(path)
            found += admitted is not None
            if admitted and (other := self.module_at(path)) is not None:
                yield other

    def files_using(self, home: Path, name: str) -> list[Path]:
        """The files of the modules that :meth:`users_of` finds for one name of a module, without a bound."""
        users = self.word_index.users(frozenset({word_of(name)}), self._home(home))
        return [home, *(path for path in users if path != home)]

    def _knows_class(self, path: Path, owner: bytes) -> bool:
        return self.word_index.holds(path, owner) or path in self.word_index.subclass_files(owner)

    @query
    def _home(self, path: Path) -> frozenset[bytes]:
        """Return what files that use a module have on an import line."""
        home = frozenset({word_of(self.module_name(path).rsplit(".", 1)[-1])})
        folder = path.parent
        # Users of what is re-exported name the package.
        return home | {word_of(folder.name)} if home & self.word_index.imported(folder / "__init__.py") else home
