"""Signs that a program is in regular use: options, checkpoints, experiment tracking, several GPUs, documentation."""

from __future__ import annotations

import re
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING

from gpulint.assessment.constants import figure, table
from gpulint.assessment.documented_programs import has_readme, is_documented, is_program
from gpulint.programs.gpu_programs import MAX_USERS, GpuPrograms
from gpulint.query import query

if TYPE_CHECKING:
    from pathlib import Path

    from gpulint.assessment.subject import Subject
    from gpulint.project import Project

MAX_PROGRAMS = 6
"""Most programs that run a module which are searched for signs."""


def shows_few(subject: Subject) -> bool:
    """Return whether a tree with a README has no job for a module, and the module and the programs that run it show few
    signs of regular use, or no sign that anyone looks at their results.

    Each sign is a row of ``signs_of_use`` in ``constants.toml``; that a command or note names a program is one more
    (``documents``).
    """
    module, project = subject.module, subject.project
    if module is None or subject.is_notebook or subject.is_launcher or subject.jobs or not has_readme(project):
        return False
    signs = _signs(project, module.path)
    return len(signs) < int(figure("signs_of_use", "least")) or signs.isdisjoint(table()["signs_of_use"]["one_of"])


@query
def _signs(project: Project, path: Path) -> frozenset[str]:
    """Return the names of the signs that a module and the programs that run it show."""
    searched = dict.fromkeys([path, *_programs(project, path)])
    found = {
        sign for sign, words in _patterns().items() if any(project.word_index.finds(one, words) for one in searched)
    }
    return frozenset(found | ({"documents"} if any(is_documented(project, one) for one in searched) else set()))


@query
def _programs(project: Project, path: Path) -> tuple[Path, ...]:
    """Return the programs that run a module, only documented ones if there are any."""
    users = islice(project.fact(GpuPrograms).users(path), MAX_USERS)
    programs = [one for one in users if is_program(project, one)]
    documented = [one for one in programs if is_documented(project, one)]
    return tuple((documented or programs)[:MAX_PROGRAMS])


@cache
def _patterns() -> dict[str, re.Pattern[bytes]]:
    """Return what finds the words of each sign among a file's identifiers, each of which is on a line."""
    return {
        sign: re.compile(b"\n(?:%b)\n" % b"|".join(word.replace("*", r"\w*").encode() for word in words))
        for sign, words in table()["signs_of_use"]["words"].items()
    }
