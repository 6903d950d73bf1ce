"""Python files of a tree by the names under which they are imported."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.query import query

if TYPE_CHECKING:
    from gpulint.project import Project


@query
def by_stem(project: Project) -> dict[str, tuple[tuple[Path, tuple[str, ...]], ...]]:
    """Return Python files, and their places without suffix, by name; packages by that of their folder."""
    found: dict[str, list[tuple[Path, tuple[str, ...]]]] = {}
    for path in project.files:
        if path.suffix == ".py":
            place = Path(project.place(path)).with_suffix("").parts
            place = place[:-1] if place[-1] == "__init__" else place
            if place:
                found.setdefault(place[-1], []).append((path, place))
    return {name: tuple(paths) for name, paths in found.items()}
