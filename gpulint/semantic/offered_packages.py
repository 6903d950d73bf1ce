"""Which folders are packages that others install, so that what they define may be used elsewhere."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.query import query

if TYPE_CHECKING:
    from pathlib import Path

    from gpulint.project import Project

MAX_FOLDERS = 8
"""How many folders above one are looked at."""
_BUILDS = ("setup.py", "setup.cfg", "pyproject.toml")
"""Files of projects that are installed."""
_PUBLISHED = regex.compile(rb"classifiers|Programming Language ::|twine|pypi", re.IGNORECASE)
"""What the build files of packages on a public index have, and those of a program's own package lack."""
_SHOWS = regex.compile(r"(^|/)(examples?|demos?|tutorials?|docs?|benchmarks?|samples?)(/|$)", re.IGNORECASE)
"""Folders of programs that show how a package is used."""
_MAIN = b"__main__"


@query
def is_distributed(project: Project, folder: Path) -> bool:
    """Return whether a folder is part of a project that others install."""
    return any(True for _ in _builds(project, folder))


@query
def is_offered(project: Project, path: Path) -> bool:
    """Return whether a module is part of a project that others install, and not of one whose own programs import it
    and that is on no package index: ``pip install -e .`` only makes its package known to them."""
    builds = _builds(project, path.parent)
    if not builds:
        return False
    return path not in _used_by_programs(project) or any(project.finds(build, _PUBLISHED) for build in builds)


def is_command(project: Project, path: Path, names: frozenset[str], function: str) -> bool:
    """Return whether a build file makes a command of a function of a module with one of some names
    (``photo-train = "photo.train:main"``)."""
    homes = "|".join(re.escape(name) for name in sorted(names))
    entry = re.compile(rf"\b(?:{homes})\s*:\s*{re.escape(function)}\b".encode(errors="surrogateescape"))
    return any(project.finds(build, entry) for build in _builds(project, path.parent))


def _builds(project: Project, folder: Path) -> list[Path]:
    parents = (folder, *folder.parents[:MAX_FOLDERS])
    return [parent / name for parent in parents for name in _BUILDS if project.exists(parent / name)]


@query
def _used_by_programs(project: Project) -> frozenset[Path]:
    """Return the modules that programs of the tree import, also through others."""
    todo = [path for path in project.python_files_with(_MAIN) if _is_program(project, path)]
    found: set[Path] = set()
    while todo:
        path = todo.pop()
        new = {one for one in project.imported(path) if one not in found}
        new |= {init for one in new if project.exists(init := one.parent / "__init__.py") and init not in found}
        found |= new
        todo += new
    return frozenset(found)


def _is_program(project: Project, path: Path) -> bool:
    """Return whether a module is a program in a folder of its own, not a module of a package that tries itself, a test
    or an example."""
    place = path.relative_to(project.root).as_posix()
    started = project.is_in_other_files(os.fsencode(path.name))
    return (
        not project.is_test(path)
        and not _SHOWS.search(place)
        and path.name not in _BUILDS
        and (started or not project.exists(path.parent / "__init__.py"))
    )
