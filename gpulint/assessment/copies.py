"""Files that are copies of others of the tree: the same script in ten folders, notebooks from one template."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.query import query, stored

if TYPE_CHECKING:
    from gpulint.project import Project

IS_COPY = "a copy of another file"
"""Said of findings in files that have an original."""
IS_DEMO = "a demo"
"""Said of findings in files that are for demonstration, by their place."""
SAME = 0.8
"""Share of the lines of either file that both have, from which on one is a copy of the other."""
MAX_NAMESAKES = 40
"""Most files of one name that are compared."""
SHARED = 0.5
"""Share of the lines of the shorter file that both have, from which on a line that both have is a copied one."""
LEAST_LINES = 15
SHORT = 8
"""Characters up to which a line says little."""


def original(project: Project, path: Path) -> Path | None:
    """The file of the tree that a file is a copy of, by its lines: of several, the one in the fewest folders; None if
    that is the file itself."""
    found = _original(project, path)
    return Path(found) if found else None


def has_line(project: Project, path: Path, line: str) -> bool:
    """Return whether a file has a line of another one, indented or not; short lines say little and count as there."""
    text = line.strip().encode("utf-8", "surrogateescape")
    return len(text) <= SHORT or text in _lines(project, path)


def share_lines(project: Project, path: Path, other: Path) -> bool:
    """Return whether two files share so many lines that one was made from the other, under any name."""
    own, others = _lines(project, path), _lines(project, other)
    least = min(len(own), len(others))
    return least >= LEAST_LINES and len(own & others) >= SHARED * least


@stored("copies")
def _original(project: Project, path: Path) -> str:
    own = _lines(project, path)
    if len(own) < LEAST_LINES:
        return ""
    for other in _namesakes(project, path.name)[:MAX_NAMESAKES]:
        if other == path:
            return ""
        lines = _lines(project, other)
        if len(own & lines) >= SAME * max(len(own), len(lines)):
            return str(other)
    return ""


@query
def _by_name(project: Project) -> dict[str, tuple[Path, ...]]:
    found: dict[str, list[Path]] = {}
    for path in project.files:
        found.setdefault(path.name, []).append(path)
    # Copies are more often below what they were made from than above it.
    return {
        name: tuple(sorted(paths, key=lambda path: (len(path.parts), path)))
        for name, paths in found.items()
        if len(paths) > 1
    }


@stored("files of a name")
def _namesakes(project: Project, name: str) -> tuple[Path, ...]:
    return _by_name(project).get(name, ())


@query
def _lines(project: Project, path: Path) -> frozenset[bytes]:
    """The lines of a file without indentation; short ones say little."""
    return frozenset(line for line in map(bytes.strip, project.data(path).splitlines()) if len(line) > SHORT)
