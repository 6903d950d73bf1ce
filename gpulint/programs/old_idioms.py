"""Code that only old releases of PyTorch run, or that was needed for them alone."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from gpulint import regex
from gpulint.programs.package_lists import Release
from gpulint.query import query

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex


class _Idiom(NamedTuple):
    before: Release
    """The first release that does not run it, or for which nobody writes it."""
    written: re.Pattern[bytes]
    beside: re.Pattern[bytes]
    """What the same file or the program has where it matters."""


_TORCH = regex.compile(rb"\btorch\b")
_LINE = rb"^[^#\n]{0,200}"
_IDIOMS = (
    _Idiom((0, 4), regex.compile(_LINE + rb"\bvolatile\s{0,9}=\s{0,9}True\b", re.MULTILINE), _TORCH),
    _Idiom((0, 4), regex.compile(_LINE + rb"\.cuda\([^()\n]{0,99}\basync\s{0,9}=", re.MULTILINE), _TORCH),
    _Idiom((0, 5), regex.compile(_LINE + rb"\bloss\w*\.data\[0\]", re.MULTILINE), _TORCH),
    _Idiom(
        (1, 7),
        regex.compile(_LINE + rb"\bcorrect\w*\[:\s{0,9}\w+\]\.view\(-1\)", re.MULTILINE),
        regex.compile(rb"\btopk\s{0,9}=\s{0,9}\(\s{0,9}1\s{0,9},\s{0,9}\d"),
    ),
)
"""Rows on single numbers that were tensors with an element, and on the first rows of a transposed tensor, which
have not been in one piece in memory since 1.7 (``accuracy(output, target, topk=(1, 5))``)."""
_MAX_FILES = 60
"""Most files of a folder that are looked at."""


def with_old_idioms(project: Project, module: ModuleIndex, since: Release) -> str:
    """Return which file has code for a release of PyTorch before ``since``: that of a program, one that it imports, or
    a program beside it; empty if none has."""
    return next((_shown(project, path, before) for path, before in _found(project, module.path) if before <= since), "")


@query
def _found(project: Project, program: Path) -> tuple[tuple[Path, Release], ...]:
    return tuple(
        (path, one.before)
        for path in dict.fromkeys((program, *sorted(project.imported(program)), *_neighbours(project, program)))
        for one in _IDIOMS
        if project.finds(path, one.written) and (project.finds(path, one.beside) or project.finds(program, one.beside))
    )


def _neighbours(project: Project, program: Path) -> Iterator[Path]:
    paths = (program.parent / name for name in sorted(project.entries(program.parent)) if name.endswith(".py"))
    return islice((path for path in paths if project.is_file(path)), _MAX_FILES)


def _shown(project: Project, path: Path, before: Release) -> str:
    name = path.relative_to(project.root).as_posix() if path.is_relative_to(project.root) else path.name
    return f"{name} is written for PyTorch before {'.'.join(map(str, before))}"
