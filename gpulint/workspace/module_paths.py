"""Which file of a tree a module name means, going by the names of files alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpulint import regex
from gpulint.query import lookup
from gpulint.workspace.files import Files

_BRANCH = regex.compile(r"-(main|master)$")
"""What the archive of a repository adds to its name."""
_OWNER = regex.compile(r"^.+?(\+|__)")
"""What copies of several repositories in one folder put before their names: ``owner__name``."""


class ModulePaths(Files):
    """The files of one tree as Python modules; dotted names start at the root."""

    def __init__(self, root: Path, files: Sequence[Path]) -> None:
        super().__init__(root, files)
        self._module_paths: dict[Path, dict[str, Path | None]] = {}
        self._nearest_with: dict[tuple[Path, str], Path | None] = {}
        self._packages: dict[Path, tuple[str, ...]] = {}
        self._importers: dict[Path, Path] = {}
        own = _BRANCH.sub("", root.name)
        self._own_names = frozenset({own, _OWNER.sub("", own)})

    def provide(self, path: Path, data: bytes | None) -> None:
        """Use ``data`` instead of what the disk holds (standard input, unsaved text); None: there is no such file."""
        super().provide(path, data)
        self._module_paths.clear()
        self._nearest_with.clear()

    def module_name(self, path: Path) -> str:
        """Dotted name of a file from the root (``pkg/sub/__init__.py`` is ``pkg.sub``)."""
        try:
            parts = list(path.relative_to(self.root).with_suffix("").parts)
        except ValueError:
            parts = [path.stem]
        if parts[-1] == "__init__" and len(parts) > 1:
            parts.pop()
        return ".".join(parts)

    def absolute(self, target: str, importer: Path) -> str:
        """Absolute form of an import target; relative ones count from the importing module's folder."""
        if not target.startswith("."):
            return target
        if importer not in self._packages:
            inside = importer.is_relative_to(self.root)
            self._packages[importer] = importer.relative_to(self.root).parts[:-1] if inside else ()
        level, folders = len(target) - len(target.lstrip(".")), self._packages[importer]
        base = ".".join(folders[: max(len(folders) - level + 1, 0)])
        return f"{base}.{target[level:]}".strip(".")

    def module_path(self, name: str, importer: Path) -> Path | None:
        """File of an absolute module name: beside the importer first, then in the folders above it up to the root.

        No module imports itself: in ``utils/model.py``, ``model`` is another one.
        """
        folder = self.folder(importer)
        found = self._module_from(name, folder)
        if found == importer and folder != self.root:
            return self._module_from(name, self.folder(folder)) or found
        return found

    def _importer_in(self, folder: Path) -> Path:
        """Any importer in a folder."""
        known = self._importers.get(folder)
        if known is None:
            known = self._importers[folder] = folder / "*"
            self._above[known] = folder
        return known

    @lookup("module")
    def _module_from(self, name: str, folder: Path) -> Path | None:
        """The same for the importers in a folder."""
        known = self._module_paths.get(folder)
        if known is None:
            known = self._module_paths[folder] = {}
        if name not in known:
            known[name] = self._search_module(name, folder)
        return known[name]

    def _search_module(self, name: str, folder: Path) -> Path | None:
        parts = name.split(".")
        top: Path | None = folder
        while (top := self._nearest(top, parts[0])) is not None:
            names = self._entries(top)
            for base in (top, top / "src") if "src" in names else (top,):
                here = names if base is top else self._entries(base)
                if parts[0] not in here and f"{parts[0]}.py" not in here:
                    continue
                target = base.joinpath(*parts)
                if (file := f"{target.name}.py") in self._entries(target.parent):
                    return self.own_path(target.with_name(file))
                if "__init__.py" in self._entries(target):
                    return self.own_path(target / "__init__.py")
            top = self._above_within(top)
            if top is None:
                return None
        # A program beside the clone of a repository imports from it by its name: ``from repository.train import run``.
        if parts[0] in self._own_names and len(parts) > 1 and self._nearest(folder, parts[0]) is None:
            return self._search_module(".".join(parts[1:]), self.root)
        return None

    def _nearest(self, folder: Path | None, top: str) -> Path | None:
        """The folder itself, or the nearest one above it, that has a module or package ``top``, also in its ``src``."""
        passed = []
        found: Path | None = None
        while folder is not None:
            if (folder, top) in self._nearest_with:
                found = self._nearest_with[folder, top]
                break
            passed.append(folder)
            names = self._entries(folder)
            if top in names or f"{top}.py" in names:
                found = folder
                break
            if "src" in names:
                inside = self._entries(folder / "src")
                if top in inside or f"{top}.py" in inside:
                    found = folder
                    break
            folder = self._above_within(folder)
        self._nearest_with.update({(below, top): found for below in passed})
        return found

    def _above_within(self, folder: Path) -> Path | None:
        """The folder above one, up to the root."""
        return None if folder == self.root or not folder.is_relative_to(self.root) else self.folder(folder)
