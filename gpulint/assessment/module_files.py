"""Python files of a tree by the names under which they are imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.query import query

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex


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


def always_imported(project: Project, module: ModuleIndex) -> Iterator[tuple[str, Path]]:
    """Yield the files of the tree that a module imports in any case, each with the name that it does so by."""
    for statement in module.syntax.tree.body:
        match statement:
            case ast.ImportFrom(module=str(name), level=level):
                names = ["." * level + name]
            case ast.ImportFrom(module=None, level=level, names=aliases):
                names = ["." * level + alias.name for alias in aliases]
            case ast.Import(names=aliases):
                names = [alias.name for alias in aliases]
            case _:
                continue
        for name in names:
            path = project.module_path(project.absolute(name, module.path), module.path)
            if path is not None and path != module.path:
                yield name, path
