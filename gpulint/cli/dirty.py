"""Which files have changes that git has no copy of."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from gpulint.escaping import say
from gpulint.git import Repository


def dirty(paths: Iterable[Path]) -> list[Path]:
    """Those of ``paths`` that are in a git work tree with content that is neither committed nor staged.

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
        repository = Repository(
            top, why="files are checked for uncommitted changes before they are modified (not with --allow-dirty)"
        )
        found += [files[target] for target in repository.unsaved(list(files))]
    return sorted(found)


def refused(paths: Iterable[Path]) -> bool:
    """Whether some of ``paths`` have uncommitted changes; these are listed on standard error."""
    files = dirty(paths)
    if files:
        say(
            "gpulint: error: refusing to modify files with uncommitted changes"
            " (commit or stage them, or pass --allow-dirty):",
            *(f"  {os.path.relpath(path)}" for path in files),
        )
    return bool(files)
