"""Which files git could not bring back."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gpulint.git import Repository


def dirty(paths: Iterable[Path]) -> list[Path]:
    """Those of ``paths`` that exist in a git work tree with content that git does not hold. What is staged, it does.

    Raises:
        ConfigError: there is a repository, and git is missing or does not answer.
    """
    by_top: dict[Path, dict[Path, Path]] = {}
    for path in paths:
        target = path.resolve()
        top = next((folder for folder in target.parents if (folder / ".git").exists()), None)
        if top is not None and target.exists():
            by_top.setdefault(top, {})[target] = path
    found = []
    for top, files in by_top.items():
        repository = Repository(top, why="--apply asks git what it holds, unless --allow-dirty is given")
        found += [files[target] for target in repository.unsaved(list(files))]
    return sorted(found)
