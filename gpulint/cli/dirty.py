"""Which files git could not bring back."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from gpulint.escaping import say
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
        repository = Repository(top, why="git is asked what it holds before files are written (not with --allow-dirty)")
        found += [files[target] for target in repository.unsaved(list(files))]
    return sorted(found)


def refused(paths: Iterable[Path]) -> bool:
    """Say on standard error which of ``paths`` are not to be written, since git could not bring them back."""
    files = dirty(paths)
    if files:
        say(
            "gpulint: error: git does not hold the present state of files that would be changed"
            " (commit or stage them, or pass --allow-dirty):",
            *(f"  {os.path.relpath(path)}" for path in files),
        )
    return bool(files)
