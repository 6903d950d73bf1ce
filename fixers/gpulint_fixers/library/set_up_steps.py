"""Installs that the documentation has as a step of the set-up: in a job, they find that nothing is missing."""

from __future__ import annotations

import re
from pathlib import Path

from gpulint import regex
from gpulint.launch.job import Job
from gpulint.launch.transfer_commands import words_of
from gpulint.programs.gpu_jobs import GpuJobCommand
from gpulint.programs.kept_environments import keeps_environment
from gpulint.project import Project
from gpulint.query import query

_TEXTS = regex.compile(r"(README|INSTALL(ATION)?|SETUP|GETTING[_-]?STARTED)(\.(md|rst|txt))?", re.IGNORECASE)
_BEFORE = regex.compile(r"^[\s>$*+`-]*(\d{1,2}[.)] +`?)?")
"""What stands before a command: a prompt, the mark of an item, the beginning of code."""
_ENDS = regex.compile(r"&&|;|\s#|`")
_DOES_AGAIN = ("uv", "sync")
"""What ``uv run`` does as well, so that a job which starts without its stage loses nothing."""


def set_up_by_hand(project: Project, held: GpuJobCommand) -> str:
    """Return the file of the documentation that has an install of a job as a step of the set-up, whose packages the
    job keeps; empty if there is none."""
    words = _common(words_of(held.command))
    return "" if words == _DOES_AGAIN else _documented(project, held.job, words)


@query
def _documented(project: Project, job: Job, words: tuple[str, ...]) -> str:
    """Return the file of the documentation that has a command as a step, where a job keeps what it installs."""
    for folder in job.document.path.parents:
        for name, steps in _steps(project, folder):
            if words in steps and keeps_environment(project.models, job, " ".join(words)):
                return (folder / name).relative_to(project.root).as_posix()
        if folder == project.root:
            break
    return ""


@query
def _steps(project: Project, folder: Path) -> list[tuple[str, frozenset[tuple[str, ...]]]]:
    """Return the lines of each file of a folder that documents the set-up, as words of commands."""
    found = list[tuple[str, frozenset[tuple[str, ...]]]]()
    for name in sorted(project.entries(folder)):
        if _TEXTS.fullmatch(name) and project.is_file(folder / name):
            text = project.data(folder / name).decode("utf-8", "replace")
            parts = (part for line in text.splitlines() for part in _ENDS.split(_BEFORE.sub("", line)))
            found.append((name, frozenset(_common(part.split()) for part in parts)))
    return found


def _common(words: list[str] | tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of a command in its shortest spelling (``python -m pip`` and ``pip3`` are ``pip``)."""
    own = words[2:] if len(words) > 2 and words[0].startswith("python") and words[1] == "-m" else words
    return (own[0].replace("pip3", "pip"), *own[1:]) if own else ()
