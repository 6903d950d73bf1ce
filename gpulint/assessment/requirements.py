"""What a file of requirements of the tree names, where it names few packages, or only small ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.assessment.constants import figure, table

if TYPE_CHECKING:
    from pathlib import Path

    from gpulint.project import Project

_LINE = regex.compile(r"([A-Za-z][\w.-]*)(?:\[[^\]]*\])?\s*(?:[=<>!~;].*)?")
"""A package, its extras, and versions or conditions."""
FEW = 3
"""Most packages of a file that are counted one by one, unless one is known to take long."""


def light_names(project: Project, path: Path, items: tuple[str, ...]) -> tuple[str, ...]:
    """Return what a file installs, with the names of packages for a file of requirements that lists few or small ones.

    Args:
        path: The file that installs them; files of requirements are looked for beside it and in the root of the tree.
        items: Packages, files and projects.
    """
    found: list[str] = []
    for item in items:
        found += (item.endswith(".txt") and _names(project, path, item)) or [item]
    return tuple(found)


def _names(project: Project, path: Path, item: str) -> list[str]:
    """The packages in a file of requirements; none if many are not small, if one is known to take
    long, or if a line is something else."""
    place = next((one for one in (path.parent / item, project.root / item) if project.is_file(one)), None)
    if place is None:
        return []
    lines = (line.partition("#")[0].strip() for line in project.data(place).decode("utf-8", "replace").splitlines())
    matches = [_LINE.fullmatch(line) for line in lines if line]
    names = [match[1].lower().replace("_", "-") for match in matches if match is not None]
    if len(names) != len(matches) or not table()["install"]["known"].keys().isdisjoint(names):
        return []
    return names if len(names) <= FEW or set(names) <= set(figure("install", "light")) else []
