"""Defaults of variables in scripts (``model=${model:-org/large}``) that each command of the tree replaces."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.query import query
from gpulint.rule import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpulint.assessment.subject import Subject
    from gpulint.project import Project

_DEFAULT = regex.compile(r"\b(?P<name>\w+)=[\"']?\$\{(?P=name):?[-=](?P<value>[^}]+)\}")
_TEXTS = frozenset({".sh", ".sbatch", ".slurm", ".pbs", ".bash", ""})
_NOTES = (".md", ".rst", ".txt")
MAX_BYTES = 300_000
"""Largest file that is read; larger ones hold data."""


def is_replaced(subject: Subject) -> bool:
    """Return whether a value comes from the default of a variable in a script, and commands in scripts and notes of the
    tree set the variable, each to another value."""
    for place in subject.finding.related:
        if (
            subject.project.kind(place.path) is not Kind.SHELL
            or (found := subject.project.document(place.path)) is None
        ):
            continue
        default = _DEFAULT.search(found.source.line(place.span.line))
        if default is not None:
            value = default["value"].strip("\"'")
            others = [text for path, text in _set_to(subject.project, default["name"]) if path != place.path]
            return bool(others) and value not in others
    return False


@query
def _set_to(project: Project, name: str) -> tuple[tuple[Path, str], ...]:
    """Return what scripts and notes set a variable to, in words of commands (``sbatch job.sh model=org/small``)."""
    words = re.compile(rf"(?<![\w$.-]){re.escape(name)}=[\"']?([^\s\"'$`]+)")
    return tuple((path, match[1]) for path, text in contents(project) for match in words.finditer(text))


@query
def contents(project: Project) -> tuple[tuple[Path, str], ...]:
    """Return scripts and notes with what they begin with, each once."""
    paths = dict.fromkeys(texts(project))
    return tuple((path, project.data(path)[:MAX_BYTES].decode("utf-8", "replace")) for path in paths)


def texts(project: Project) -> Iterator[Path]:
    """Yield scripts, and the notes in the folders of the tree."""
    yield from (path for path in project.files if path.suffix in _TEXTS)
    for folder in sorted({project.root, *(path.parent for path in project.files)}):
        for name in sorted(project.entries(folder)):
            if name.lower().endswith(_NOTES) and project.is_file(folder / name):
                yield folder / name
