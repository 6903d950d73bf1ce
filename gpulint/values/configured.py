"""What the configuration files of a tree, and assignments in other modules, set a name to: ``num_workers: 8``."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.query import query, stored
from gpulint.values.constants import Constants
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.project import Project

MAX_FILES = 200
"""Most files that mention a name and are read."""
_SUFFIXES = (".yaml", ".yml", ".json")


def always_overridden(project: Project, name: str, path: Path) -> bool:
    """Return whether all configuration files of the tree that know ``name`` set it to something, and at least one does;
    or whether a module other than the one in ``path`` sets it on an object."""
    if not name:
        return False
    values = [value for file in mentioning(project, name) for value in in_file(project, file, name)]
    if values and all(values):
        return True
    return any(_assigns(project, other, name) for other in _modules(project, name) if other != path)


@query
def mentioning(project: Project, name: str) -> tuple[Path, ...]:
    word = word_of(name)
    found = (path for path in project.files if path.suffix in _SUFFIXES and project.contains(path, word))
    return tuple(path for path in found if not project.is_test(path))[:MAX_FILES]


@query
def _modules(project: Project, name: str) -> tuple[Path, ...]:
    return tuple(path for path in project.word_index.mentioning(word_of(name)) if not project.is_test(path))[:MAX_FILES]


def in_file(project: Project, path: Path, name: str) -> list[object]:
    """The values under keys of that name."""
    read = project.fact(Constants).configs.read(path)
    return [value for key, (value, _) in read.items() if key.rpartition(".")[2] == name]


@stored("modules that set a name to something")
def _assigns(project: Project, path: Path, name: str) -> bool:
    """``data.num_workers = 8``"""
    module = project.module_at(path)
    return module is not None and any(
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and bool(node.value.value)
        and any(
            isinstance(target, ast.Attribute)
            and target.attr == name
            and not (isinstance(target.value, ast.Name) and target.value.id in ("self", "cls"))
            for target in node.targets
        )
        for node in module.syntax.of(ast.Assign)
    )
