"""The ``.gitignore`` files of a tree, read once each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from gpulint import disk
from gpulint.patterns import NamePatterns, readable
from gpulint.records import dataclass

NAME = ".gitignore"


@dataclass(frozen=True, slots=True)
class Ignores:
    """The .gitignore files that apply in a folder, innermost first: the first with an opinion decides, as in git."""

    specs: tuple[tuple[Path, NamePatterns], ...] = ()

    def match(self, path: Path, *, is_folder: bool = False) -> bool:
        for folder, spec in self.specs:
            verdict = spec.include(path.relative_to(folder).as_posix() + "/" * is_folder)
            if verdict is not None:
                return verdict
        return False


class IgnoreFiles:
    """``note`` is told of a file that cannot be used."""

    def __init__(self, note: Callable[[Path, str], None]) -> None:
        self._note = note
        self._specs: dict[Path, NamePatterns | None] = {}

    def above(self, path: Path) -> Ignores:
        """Ignores of the folders above ``path``, up to the repository's root; none if they ignore ``path`` itself.

        Whoever names an ignored folder wants it scanned.
        """
        ignores = Ignores()
        for folder in reversed(list(_up_to_repository(path))):
            ignores = self.entering(folder, ignores)
        is_folder = disk.is_dir(path) and not path.is_symlink()
        return Ignores() if is_folder and ignores.match(path, is_folder=True) else ignores

    def entering(self, folder: Path, ignores: Ignores, *, has_file: bool = True) -> Ignores:
        """Ignores in a folder that is entered from where ``ignores`` apply."""
        if folder not in self._specs:
            self._specs[folder] = self._read(folder / NAME) if has_file else None
        spec = self._specs[folder]
        return ignores if spec is None else Ignores(((folder, spec), *ignores.specs))

    def _read(self, path: Path) -> NamePatterns | None:
        try:
            lines = disk.read(path, follow=False).decode("utf-8", "replace").splitlines()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:  # git, too, follows no link here
            self._note(path, f"not used: {error.strerror}")
            return None
        patterns, left_out = readable(lines)
        if left_out:
            self._note(path, f"{left_out} patterns not used: too many, too long or not valid")
        return NamePatterns(patterns)


def _up_to_repository(path: Path) -> Iterator[Path]:
    """The parents of ``path`` inside its repository; none outside of a repository."""
    if disk.exists(path / ".git"):
        return iter(())
    parents = []
    for folder in path.parents:
        parents.append(folder)
        if disk.exists(folder / ".git"):
            return iter(parents)
    return iter(())
