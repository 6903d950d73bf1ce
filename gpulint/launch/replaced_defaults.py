"""Defaults of shell scripts (``${1:-1}``, ``${NPROC:-1}``) that whoever starts the script may replace."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.query import query

if TYPE_CHECKING:
    from pathlib import Path

    from gpulint.launch.job import Job, JobLaunch
    from gpulint.project import Project
    from gpulint.source import Span

_DEFAULT = regex.compile(r"\$\{(\w+):?[-=][\"']?$")
_NOTES = (".md", ".rst", ".txt")
MAX_BYTES = 200_000
"""Most of a note that is read."""
MAX_FILES = 100
"""Most files that are looked at for what starts a script."""


def may_be_replaced(project: Project, job: Job, start: JobLaunch, default: Span) -> bool:
    """Return whether a default, at its place in the script that holds a launch, may be replaced: a script of the job
    passes an unknown value, or a file or note of the tree starts the job with arguments, or sets such a variable."""
    document = start.document
    match = _DEFAULT.search(document.cell_source(default.cell).line(default.line)[: default.column - 1])
    if match is None:
        return False
    name = match[1]
    if name.isdigit() and document is not job.document:
        given = start.env.get(name)
        return given is not None and given.value is None
    return _is_set(project, job.document.path, name)


@query
def _is_set(project: Project, script: Path, name: str) -> bool:
    """Return whether a file that names a script passes it arguments, or sets a variable of the environment."""
    named = re.escape(os.fsencode(script.name))
    if name.isdigit():
        asks = rb"\b(?:sbatch|qsub|bsub|bash|sh|oarsub)\b[^\n]{0,200}\b" + named + rb"[\"']?,?[ \t]+[\"']?[\w$<\[{./-]"
    else:
        asks = rb"\b" + name.encode() + rb"=|[\"']" + name.encode() + rb"[\"']"
    pattern = re.compile(asks)
    files = [path for path in project.files_with(os.fsencode(script.name)) if path != script or name.isdigit()]
    files += [path for path in project.files if path.suffix == ".env" or path.name.startswith(".env")]
    if any(project.finds(path, pattern) for path in files[:MAX_FILES]):
        return True
    texts = (project.data(path)[:MAX_BYTES] for path in notes(project, script))
    return any(os.fsencode(script.name) in text and pattern.search(text) for text in texts)


def notes(project: Project, script: Path) -> Iterator[Path]:
    """Yield the notes beside a script or program and at the root of the tree."""
    for folder in dict.fromkeys((script.parent, project.root)):
        for entry in sorted(project.entries(folder)):
            if entry.lower().endswith(_NOTES) and project.is_file(folder / entry):
                yield folder / entry
