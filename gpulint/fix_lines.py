"""Numbers of lines in what is said of a file that fixes have changed, as they are in the file of the user."""

from __future__ import annotations

import difflib
import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpulint.finding import Finding
    from gpulint.project import Project

_LINE = regex.compile(r"\bline (\d{1,9})(?: of ([\w.-]+))?")
"""``line 99``, ``line 12 of utils.py``"""


def as_before(reason: str, finding: Finding, now: Project, before: Project) -> str:
    """Return a reason of a fixer with the numbers of lines that the files had before all fixes."""

    def numbered(found: re.Match[str]) -> str:
        path: Path | None = finding.path
        cell = finding.span.cell
        if found[2] is not None and found[2] != finding.path.name:
            path, cell = _named(found[2], now), None
        line = _line(int(found[1]), path, cell, now, before) if path is not None else int(found[1])
        return found[0].replace(found[1], str(line), 1)

    return _LINE.sub(numbered, reason)


def _named(name: str, project: Project) -> Path | None:
    """The one file of that name."""
    found = [path for path in project.files if path.name == name]
    return found[0] if len(found) == 1 else None


def _line(number: int, path: Path, cell: int | None, now: Project, before: Project) -> int:
    """Return where a line was, or the one that it came in the place of; the number itself for a new file."""
    if path not in before.files or now.data(path) == before.data(path):
        return number
    old, new = (_text(project, path, cell) for project in (before, now))
    for tag, start, end, first, last in _changes(old, new):
        if first < number <= last:
            return start + number - first if tag == "equal" else min(start + number - first, max(end, start + 1))
    return number


@lru_cache(maxsize=8)
def _changes(old: str, new: str) -> Sequence[tuple[str, int, int, int, int]]:
    """Return how the lines of two texts correspond. Lines that come often are no anchors (difflib's default), without
    which files that repeat a line would take quadratic time."""
    return difflib.SequenceMatcher(None, old.splitlines(), new.splitlines()).get_opcodes()


def _text(project: Project, path: Path, cell: int | None) -> str:
    document = project.document(path)
    return document.cell_source(cell).text if document is not None else ""
