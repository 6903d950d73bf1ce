"""Where the cache is.

``--cache-dir`` counts first, then ``GPULINT_CACHE_DIR``, the setting ``cache-dir`` and the user's cache folder.

The key that entries are authenticated with is in the cache's folder, so that keeping that folder keeps the cache. Only
where a repository could have brought the folder along is the key in the user's cache folder instead.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpulint.cache.folder import Folder, Refused, opened
from gpulint.config import Config, ConfigError
from gpulint.records import dataclass
from gpulint.settings import CACHE_VARIABLE

OLD_NAME = ".gpulint_cache"
"""The cache of earlier versions at a project's root, which is neither read nor written."""


@dataclass(frozen=True, slots=True)
class Location:
    """A cache folder (an absolute path); ``trees`` are real paths of folders whose content nobody trusts."""

    path: Path
    trees: tuple[Path, ...]
    chosen: bool
    """Whether a person or a settings file named it."""

    @contextlib.contextmanager
    def open(self) -> Iterator[tuple[Folder, bytes]]:
        """The checked folder and the key of its entries; both are made if they do not exist.

        Raises:
            Refused: a folder that cannot be trusted.
            OSError: it cannot be made or opened.
        """
        if not self.chosen and self._in_trees(self.path):
            # Whoever scans all of their home folder made no mistake that a message could help with.
            raise OSError("the user's cache folder is in the scanned tree")
        key = None
        if self._may_be_shipped(self.path):
            with self._of_key()._checked() as other:
                key = other.key()
        with self._checked() as folder:
            yield folder, key or folder.key()

    @contextlib.contextmanager
    def existing(self) -> Iterator[Folder]:
        """The folder as it is; raises like ``open``."""
        with opened(self.path, self._anchor()) as folder:
            yield folder

    @contextlib.contextmanager
    def _checked(self) -> Iterator[Folder]:
        anchor = self._anchor()
        if self.chosen:
            anchor.mkdir(0o700, parents=True, exist_ok=True)
        else:  # a home folder that does not exist is not made
            anchor.mkdir(0o700, exist_ok=True)
        with opened(self.path, anchor, create=True) as folder:
            folder.check()
            yield folder

    def _anchor(self) -> Path:
        """The parent below which no link is followed: where the path enters a tree, else the last one."""
        above = (*reversed(self.path.parents), self.path)
        return next((folder for folder in above if self._in_trees(folder)), self.path.parent)

    def _in_trees(self, folder: Path) -> bool:
        real = Path(os.path.realpath(folder))
        return any(real.is_relative_to(tree) for tree in self.trees)

    def _may_be_shipped(self, folder: Path) -> bool:
        return self._in_trees(folder) or (self.chosen and _repository(Path(os.path.realpath(folder))) is not None)

    def _of_key(self) -> Location:
        """The folder that has the key where this one may have come with a repository."""
        for other in (of_user(self.trees), _default(self.trees)):
            if other is not None and not other._may_be_shipped(other.path):
                return other
        raise Refused(f"{self.path} is in a repository, and there is no cache folder outside of it for the key")


def locate(option: str | None, config: Config, paths: Sequence[Path]) -> Location | None:
    """The cache for a run on ``paths`` (absolute); None if there is no place for one.

    Raises:
        ConfigError: a settings file outside of the scanned tree has the setting.
    """
    trees = _trees(paths)
    if option is not None:
        return Location(_absolute(option), trees, True)
    if config.cache_dir is None or os.environ.get(CACHE_VARIABLE):
        return of_user(trees)
    if all(path.is_relative_to(config.base) for path in paths):
        trees = (*trees, Path(os.path.realpath(config.base)))
    location = Location(config.base / config.cache_dir, trees, True)
    if not location._in_trees(config.base):
        raise ConfigError(f"{config.source}: 'cache-dir' is for a settings file in the scanned tree; use --cache-dir")
    return location


def of_user(trees: tuple[Path, ...]) -> Location | None:
    """The cache of this user, whatever settings say."""
    named = os.environ.get(CACHE_VARIABLE)
    return Location(_absolute(named), trees, True) if named else _default(trees)


def in_folder(folder: Path, name: str) -> Location:
    """A cache directly in ``folder``; it is not followed if it is a link."""
    return Location(folder / name, (Path(os.path.realpath(folder)),), True)


def _absolute(folder: str) -> Path:
    return Path(os.path.abspath(os.path.expanduser(folder)))  # noqa: PTH100, PTH111 - Path.resolve would follow links


def _default(trees: tuple[Path, ...]) -> Location | None:
    from platformdirs import user_cache_path

    folder = user_cache_path("gpulint")
    return Location(folder, trees, False) if folder.is_absolute() else None


def _trees(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Real paths of the repositories that ``paths`` are in, or of their projects, or else of their folders."""
    from gpulint.discover import is_project

    found = set[Path]()
    for path in paths:
        folder = path if path.is_dir() else path.parent
        tops = (top for top in (folder, *folder.parents) if is_project(top))
        found.add(_repository(folder) or next(tops, folder))
    return tuple(Path(os.path.realpath(folder)) for folder in sorted(found))


def _repository(folder: Path) -> Path | None:
    return next((top for top in (folder, *folder.parents) if os.path.lexists(top / ".git")), None)
