"""Which script of the tree writes a job file whose name it puts together, as one with a time in it."""

from __future__ import annotations

import re
from pathlib import Path

from gpulint import regex
from gpulint.project import Project
from gpulint.query import query

_VARIABLE = regex.compile(rb"\$\([^()\n]*\)|`[^`\n]*`|\$\{[^}\n]*\}|\$\w+|\{[^{}\n]*\}|%[sd]")
_STAMP = regex.compile(r"20\d\d[-_]?\d\d[-_]?\d\d[-_T]?\d\d[-_]?\d\d")
"""A date and a time of day in a file's name."""
_REQUEST = regex.compile(rb"[^\n]*#(SBATCH|PBS|BSUB|\$) ")
_ANY = b"\0"
_LEAST = 3
"""Letters of a name that a script has to write out."""


def is_stamped(path: Path) -> bool:
    """Return whether the name of a file has the time at which something wrote it."""
    return _STAMP.search(path.name) is not None


@query
def writer_of(project: Project, path: Path) -> Path | None:
    """The only script with job directives that puts together the name of a file: ``train_${task}.job``."""
    found = {file for pattern, file in _names(project, path.suffix) if file != path and pattern.fullmatch(path.name)}
    return found.pop() if len(found) == 1 else None


@query
def _names(project: Project, suffix: str) -> tuple[tuple[re.Pattern[str], Path], ...]:
    """Patterns of the names of job files that scripts put together, with the script."""
    found = list[tuple[re.Pattern[str], Path]]()
    for path in project.files:
        if path.suffix not in ("", ".sh", ".bash", ".py") or not suffix or is_stamped(path):
            continue
        text = project.data(path)
        if suffix.encode() not in text or _REQUEST.search(text) is None:
            continue
        token = rb"[\w.\x00-]*\x00[\w.\x00-]*" + re.escape(suffix.encode()) + rb"\b"
        for name in set(re.findall(token, _VARIABLE.sub(_ANY, text))):
            parts = name.decode("utf-8", "replace").split("\0")
            if len(parts[0]) >= _LEAST:
                found.append((re.compile(".+".join(map(re.escape, parts))), path))
    return tuple(found)
