"""Programs that the README of a tree names as the step that downloads (``get_data.py: downloads the data set``)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.query import query

if TYPE_CHECKING:
    from gpulint.project import Project

_TEXTS = regex.compile(r"README[\w.-]*|INSTALL[\w.-]*", re.IGNORECASE)
_NAMES = regex.compile(r"(?<![\w-])[\w-]{1,80}\.py\b")
_FETCHES = regex.compile(r"\b(?:pre-?)?(?:download|fetch)(?:s|es|ed|ing)?\b", re.IGNORECASE)
_RUNS = regex.compile(r"\b(?:train|evaluat|fine-?tun|infer|test)", re.IGNORECASE)
"""Words of a line that tells of more than a download."""
_MOST, _LARGEST = 300, 100_000
"""Most folders that are looked at, and the bytes of a text that are read."""


@query
def documented_fetchers(project: Project) -> frozenset[Path]:
    """Programs of which a line in the README of their folder, or of a folder above, says that they download, and
    nothing of a training."""
    folders = dict[Path, dict[str, list[Path]]]()
    """Folder -> name -> the programs of that name in it and below."""
    for path in project.python_files:
        for folder in path.parents:
            folders.setdefault(folder, {}).setdefault(path.name, []).append(path)
            if folder == project.root:
                break
    return frozenset(
        path
        for folder, programs in list(folders.items())[:_MOST]
        for name in _named_in(project, folder)
        for path in programs.get(name, ())
    )


@query
def _named_in(project: Project, folder: Path) -> frozenset[str]:
    """Return the names of programs that a README in a folder says to download."""
    found = set[str]()
    for text in sorted(project.entries(folder)):
        if not _TEXTS.fullmatch(text) or not project.is_file(folder / text):
            continue
        for line in project.data(folder / text)[:_LARGEST].decode("utf-8", "replace").splitlines():
            names = _NAMES.findall(line) if _FETCHES.search(line) else []
            if len(names) == 1 and not _RUNS.search(line.replace(names[0], "")):
                found.add(names[0])
    return frozenset(found)
