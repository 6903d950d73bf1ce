"""Which modules may know what another one defines: those that import it, or that import what imports it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpulint.query import query
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
    found, todo = {_named(home)}, {_named(home), *_packages(project, home)}
    while todo:
        found |= todo
        users = words.importing(frozenset(map(word_of, todo)))
        todo = {_named(path) for path in users if path in importing or path in stars} - found
    return frozenset(found)


@query
def importing_files(project: Project, home: Path, name: str) -> frozenset[Path]:
    """Other files that mention a name of a module and may know it from there. A notebook may have run the module."""
    words = project.word_index
    importing = {*words.importing(frozenset(map(word_of, known_as(project, home, name))))}
    stem = word_of(_named(home))
    return frozenset(
        path
        for path in words.mentioning(word_of(name))
        if path != home and (path in importing or (path.suffix == ".ipynb" and words.holds(path, stem)))
    )


def _packages(project: Project, home: Path) -> set[str]:
    """The package around a module, if it mentions the module: it may import what is asked for at first use."""
    package = home.parent / "__init__.py"
    return {home.parent.name} if project.word_index.holds(package, word_of(home.stem)) else set()


def _named(path: Path) -> str:
    return path.parent.name if path.stem == "__init__" else path.stem
