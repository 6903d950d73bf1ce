"""Which modules may know what another one defines: those that import it, or that import what imports it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.query import query
from gpulint.semantic.offered_packages import is_distributed
from gpulint.workspace.module_index import FUNCTIONS
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from pathlib import Path

    from gpulint.project import Project

_STAR = b"import *"


@query
def known_as(project: Project, home: Path, name: str) -> frozenset[str]:
    """Names of the modules that have a definition of the module ``home`` under a name: the module itself, and those
    that import the name, or all names, from one of them."""
    words, stars = project.word_index, {*project.python_files_with(_STAR)}
    importing = {path for path in words.mentioning(word_of(name)) if word_of(name) in words.imported(path)}
    found, todo = {named(home)}, {named(home), *_packages(project, home)}
    while todo:
        found |= todo
        users = words.importing(frozenset(map(word_of, todo)))
        todo = {named(path) for path in users if path in importing or path in stars} - found
    return frozenset(found)


@query
def importing_files(project: Project, home: Path, name: str) -> frozenset[Path]:
    """Other files that mention a name of a module and may know it from there. A notebook may have run the module."""
    words = project.word_index
    importing = {*words.importing(frozenset(map(word_of, known_as(project, home, name))))}
    stem = word_of(named(home))
    return frozenset(
        path
        for path in words.mentioning(word_of(name))
        if path != home and (path in importing or (path.suffix == ".ipynb" and words.holds(path, stem)))
    )


@query
def files_with_missing_imports(project: Project, home: Path, name: str) -> frozenset[Path]:
    """Other files that import a name from modules which are not in the tree: they may mean one whose path was another
    where they run. Where several modules define the name and nobody installs them, the missing one has to be called
    like the module, or like one that hands the name on."""
    word = word_of(name)
    known = importing_files(project, home, name)
    if len(_defining(project, name)) > 1 and not is_distributed(project, home.parent):
        return frozenset()  # `importing_files` has those that name it
    paths = (path for path in project.word_index.mentioning(word) if path != home and path not in known)
    return frozenset(
        path for path in paths if word in project.word_index.imported(path) and _misses(project, path, name)
    )


@query
def _defining(project: Project, name: str) -> tuple[Path, ...]:
    """The modules that define a class or function of a name."""
    paths = project.word_index.mentioning(word_of(name))
    modules = (module for path in paths if (module := project.module_at(path)) is not None)
    return tuple(
        module.path
        for module in modules
        if any(isinstance(part, (*FUNCTIONS, ast.ClassDef)) and part.name == name for part in module.syntax.tree.body)
    )


def _misses(project: Project, path: Path, name: str) -> bool:
    module = project.module_at(path)
    return module is not None and any(
        any(alias.name == name for alias in node.names)
        and project.module_path(project.absolute("." * node.level + (node.module or ""), path), path) is None
        for node in module.syntax.of(ast.ImportFrom)
    )


def _packages(project: Project, home: Path) -> set[str]:
    """The package around a module, if it mentions the module: it may import what is asked for at first use."""
    package = home.parent / "__init__.py"
    return {home.parent.name} if project.word_index.holds(package, word_of(home.stem)) else set()


def named(path: Path) -> str:
    """The name of a module, or of the package that it is."""
    return path.parent.name if path.stem == "__init__" else path.stem
