"""What the configuration files of a tree, and assignments in other modules, set a name to: ``num_workers: 8``."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.query import query, stored
from gpulint.values.constants import Constants
from gpulint.values.line_settings import line_settings
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

MAX_FILES = 200
"""Most files that mention a name and are read."""
_SUFFIXES = (".yaml", ".yml", ".json")


def always_overridden(project: Project, name: str, path: Path) -> bool:
    """Return whether all configuration files of the tree that know ``name`` set it to something, and at least one does;
    or whether a module other than the one in ``path`` sets it on an object."""
    if not name:
        return False
    values = [value for file in mentioning(project, name) for value in in_file(project, file, name)]
    values += line_settings(project, name)
    if values and all(values):
        return True
    runs = _runs_files(project, path)
    return any(_assigns(project, other, name, runs) for other in _modules(project, name) if other != path)


def _runs_files(project: Project, path: Path) -> bool:
    """Return whether a module runs the text of other files in its own namespace (``exec(open(path).read())``)."""
    module = project.module_at(path)
    return module is not None and "exec" in module.calls_by_name


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
def _assigns(project: Project, path: Path, name: str, runs: bool) -> bool:
    """``data.num_workers = 8``, and ``num_workers = 8`` in files that a program may run"""
    module = project.module_at(path)
    return module is not None and any(
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and bool(node.value.value)
        and any(_is_set(target, name) or (runs and _is_global(module, node, name)) for target in node.targets)
        for node in module.syntax.of(ast.Assign)
    )


def _is_set(target: ast.expr, name: str) -> bool:
    match target:
        case ast.Attribute(value=ast.Name(id="self" | "cls")):
            return False
        case ast.Attribute(attr=attribute):
            return attribute == name
    return False


def _is_global(module: ModuleIndex, node: ast.Assign, name: str) -> bool:
    """Return whether a statement at the top of a module sets a variable of that name."""
    return module.syntax.parents.get(node) is module.syntax.tree and any(
        isinstance(target, ast.Name) and target.id == name for target in node.targets
    )
