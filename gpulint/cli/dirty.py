"""Which files git could not bring back: changed since they were added, or not known to it at all."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

_AT_ONCE = 200


def dirty(paths: Iterable[Path]) -> list[Path]:
    """Those of ``paths`` that stand in a git work tree with changes that git does not hold. What is staged, it does."""
    found: list[Path] = []
    by_top: dict[Path, list[Path]] = {}
    for path in paths:
        target = path.resolve()
        if target.exists() and (top := _top(target)) is not None:
            by_top.setdefault(top, []).append(path)
    for top, files in by_top.items():
        unsaved = _unsaved(top, [path.resolve() for path in files])
        found += [path for path in files if path.resolve() in unsaved]
    return sorted(found)


def _top(path: Path) -> Path | None:
    return next((folder for folder in path.parents if (folder / ".git").exists()), None)


def _unsaved(top: Path, files: Sequence[Path]) -> set[Path]:
    """``files`` that git cannot restore; all where it cannot tell, none where there is no git."""
    command = ["git", "-c", "core.fsmonitor=false", "status", "--porcelain", "-z", "--ignored", "--untracked-files=all"]
    environment = {name: value for name, value in os.environ.items() if name not in ("GIT_DIR", "GIT_WORK_TREE")}
    environment |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_LITERAL_PATHSPECS": "1"}
    found = set[Path]()
    for start in range(0, len(files), _AT_ONCE):
        part = files[start : start + _AT_ONCE]
        try:
            status = subprocess.run(
                [*command, "--no-renames", "--", *part], cwd=top, env=environment, capture_output=True, check=False
            )
        except OSError:
            return set()
        if status.returncode:
            return set(files)
        entries = [entry for entry in status.stdout.split(b"\0") if entry]
        found |= {top / os.fsdecode(entry[3:]) for entry in entries if entry[1:2] != b" "}
    return found
