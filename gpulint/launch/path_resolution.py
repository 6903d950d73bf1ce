"""Files that launchers mean: paths and modules as a script or spec writes them, looked up in the tree."""

from __future__ import annotations

import posixpath
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from gpulint.documents.shell import SCRIPT_DIR, START_DIR
from gpulint.launch.working_directory import HOME, SOMEWHERE, join

if TYPE_CHECKING:
    from gpulint.project import Project


Located = tuple[Path, Path | None]
"""A file, and the folder that the command which names it was started in, where that is known."""


class PathResolver:
    """Finds files of one project by paths written for another place (a container, a cluster's file system)."""

    def __init__(self, project: Project) -> None:
        self.root = project.root
        self._is_file = project.is_file
        self._modules: dict[tuple[str, str | None, Path, Path | None], Path | None] = {}
        self._by_name: dict[str, list[Path]] = {}
        self._by_folder: dict[Path, list[Path]] = {}
        for path in project.files:
            self._by_name.setdefault(path.name, []).append(path)
            self._by_folder.setdefault(path.parent, []).append(path)

    def in_folder(self, folder: Path) -> list[Path]:
        """The project's files directly in a folder."""
        return self._by_folder.get(folder, [])

    def named(self, name: str) -> list[Path]:
        """The project's files of a name, in any folder."""
        return self._by_name.get(name, [])

    def locate(self, written: str, cwd: str | None, document: Path, start: Path | None) -> Located | None:
        """File that ``written`` means in a command of ``document``, and the folder that the command was started in.

        ``cwd`` is the command's folder, as :func:`gpulint.launch.working_directory.working_dir` gives it; ``start`` is
        the folder that the script is known to start in (its caller's), None if unknown.
        """
        if written.startswith(SOMEWHERE):
            found = self._inside_container(written[len(SOMEWHERE) :], document, least=2)
            return None if found is None else (found, None)
        joined = written if written.startswith(("/", SCRIPT_DIR, START_DIR)) else join(cwd, written)
        if joined is None:
            found = self._unique(written, document)
            return None if found is None else (found, None)
        if joined.startswith(SCRIPT_DIR):
            found = self._file(document.parent, joined[len(SCRIPT_DIR) :])
            return None if found is None else (found, start)
        if joined.startswith(HOME):
            found = self._inside_container(joined, document, least=2)
            if found is None and not written.startswith(HOME[1:]):
                found = self._unique(written, document)
            return None if found is None else (found, None)
        if joined.startswith("/"):
            found = self._inside_container(joined, document)
            return None if found is None else (found, None)
        relative = joined.removeprefix(START_DIR)
        for base in ([start] if start is not None else []) + self._above(document):
            if (found := self._file(base, relative)) is not None:
                return found, base
        found = self._unique(relative, document)
        return None if found is None else (found, None)

    def module(self, name: str, cwd: str | None, document: Path, start: Path | None) -> Path | None:
        """File that ``python -m name`` runs."""
        key = (name, cwd, document.parent, start)
        if key not in self._modules:
            self._modules[key] = self._module(*key[:2], document, start)
        return self._modules[key]

    def _module(self, name: str, cwd: str | None, document: Path, start: Path | None) -> Path | None:
        stem = name.replace(".", "/")
        for written in (f"{stem}.py", f"{stem}/__main__.py", f"src/{stem}.py", f"src/{stem}/__main__.py"):
            if (found := self.locate(written, cwd, document, start)) is not None:
                return found[0]
        return None

    def folder(self, cwd: str | None, base: Path | None, document: Path) -> Path | None:
        """A command's folder as a folder of the tree."""
        if cwd is None:
            return None
        if cwd.startswith(SCRIPT_DIR):
            return Path(posixpath.normpath(f"{document.parent.as_posix()}/{cwd[len(SCRIPT_DIR) :]}"))
        if cwd.startswith("/") or base is None:
            return None
        return Path(posixpath.normpath(f"{base.as_posix()}/{cwd.removeprefix(START_DIR)}"))

    def _above(self, document: Path) -> list[Path]:
        """The document's folder and those above it, up to the root."""
        folders = [document.parent]
        while folders[-1] != self.root and folders[-1].is_relative_to(self.root):
            folders.append(folders[-1].parent)
        return folders

    def _file(self, base: Path, relative: str) -> Path | None:
        path = Path(posixpath.normpath(f"{base.as_posix()}/{relative}"))
        return path if path.is_relative_to(self.root) and self._is_file(path) else None

    def _inside_container(self, written: str, document: Path, least: int = 1) -> Path | None:
        """``/app/src/train.py``: the longest tail that is a file near the spec, else the one file of that tail.

        ``least`` is the number of parts that a tail must have.
        """
        path = Path(posixpath.normpath(written))
        if path.is_relative_to(self.root):
            return path if self._is_file(path) else None
        parts = PurePosixPath(posixpath.normpath(written)).parts[1:]
        for at in range(len(parts) - least + 1):
            tail = "/".join(parts[at:])
            for base in self._above(document):
                if (found := self._file(base, tail)) is not None:
                    return found
        for at in range(len(parts) - least + 1):
            if (found := self._unique("/".join(parts[at:]), document)) is not None:
                return found
        return None

    def _unique(self, written: str, document: Path) -> Path | None:
        """The one file whose path ends so: below the document's folder, or anywhere for a path with a folder in it."""
        parts = tuple(part for part in PurePosixPath(posixpath.normpath(written)).parts if part != "..")
        if not parts:
            return None
        same = [path for path in self._by_name.get(parts[-1], ()) if path.parts[-len(parts) :] == parts]
        near = [path for path in same if path.is_relative_to(document.parent)]
        if len(near) == 1:
            return near[0]
        return same[0] if len(same) == 1 and len(parts) > 1 else None
