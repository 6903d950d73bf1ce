"""The lists of packages that are nearest to a program: what it may run with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.numerals import whole
from gpulint.query import query

if TYPE_CHECKING:
    from gpulint.project import Project

Release = tuple[int, ...]

_LISTS = regex.compile(
    r"(?:requirements[\w-]*\.txt|environment\.ya?ml|setup\.(?:py|cfg)|pyproject\.toml|Dockerfile[\w.-]*)", re.IGNORECASE
)
_LEAST = r"(?:\[[\w,-]+\])?[\"' ]*(?:===?|~=|>=|=)[\"' ]*[\^~v]?(?P<release>\d+(?:\.\d+)*)"
"""``==2.3``, ``>=2.3``, ``~=2.3``, conda's ``=2.3``, Poetry's ``= "^2.3"``: no older release is allowed."""


def lists_above(project: Project, path: Path) -> Iterator[tuple[Path, ...]]:
    """The lists of packages in each folder above a file, the nearest ones first."""
    for folder in path.parents:
        if found := _lists(project, folder):
            yield found
        if folder == project.root:
            return


def requires(project: Project, path: Path, packages: tuple[str, ...], least: Release) -> bool:
    """Return whether the nearest lists of packages that name one of ``packages`` allow no release before ``least``."""
    for found in lists_above(project, path):
        releases = [release for one in found for release in _oldest(project, one, packages)]
        if releases:
            return min(releases) >= least
    return False


@query
def _lists(project: Project, folder: Path) -> tuple[Path, ...]:
    return tuple(sorted(folder / name for name in project.entries(folder) if _LISTS.fullmatch(name)))


@query
def _oldest(project: Project, path: Path, packages: tuple[str, ...]) -> tuple[Release, ...]:
    """The oldest releases of packages that the lines of a list allow; the empty one where a line sets no bound."""
    text = project.data(path).decode("utf-8", "replace")
    found = list[Release]()
    for package in packages:
        for named in re.finditer(rf"(?<![\w./-]){re.escape(package)}(?![\w-])(?:{_LEAST})?", text):
            parts = [whole(part) for part in (named["release"] or "").split(".")]
            found.append(tuple(part for part in parts if part is not None))
    return tuple(found)
