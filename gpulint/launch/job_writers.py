"""Which script of the tree writes a job file whose name it puts together, as one with a time in it."""

from __future__ import annotations

from pathlib import Path

from gpulint import regex
from gpulint.project import Project
from gpulint.query import query

_VARIABLE = regex.compile(rb"\$\([^()\n]*\)|`[^`\n]*`|\$\{[^}\n]*\}|\$\w+|\{[^{}\n]*\}|%[sd]")
_STAMP = regex.compile(r"20\d\d[-_]?\d\d[-_]?\d\d[-_T]?\d\d[-_]?\d\d")
"""A date and a time of day in a file's name."""
_REQUEST = regex.compile(rb"#(SBATCH|PBS|BSUB|\$) ")
_NAME = regex.compile(rb"[\w.\x00-]+")
_ANY = b"\0"
_LEAST = 3
"""Letters of a name that a script has to write out."""


def is_stamped(path: Path) -> bool:
    """Return whether the name of a file has the time at which something wrote it."""
    return _STAMP.search(path.name) is not None


def writer_of(project: Project, path: Path) -> Path | None:
    """The only script with job directives that puts together the name of a file: ``train_${task}.job``."""
    found = writers_of(project, path)
    return found[0] if len(found) == 1 else None


@query
def writers_of(project: Project, path: Path) -> tuple[Path, ...]:
    """All such scripts."""
    found = {file for parts, file in _names(project, path.suffix) if file != path and _fits(path.name, parts)}
    return tuple(sorted(found))


@query
def _names(project: Project, suffix: str) -> tuple[tuple[tuple[str, ...], Path], ...]:
    """Parts of the names of job files that scripts put together, as written between variables, with the script."""
    found = list[tuple[tuple[str, ...], Path]]()
    for path in project.files:
        if path.suffix not in ("", ".sh", ".bash", ".py") or not suffix or is_stamped(path):
            continue
        text = project.data(path)
        if suffix.encode() not in text or _REQUEST.search(text) is None:
            continue
        for word in dict.fromkeys(_NAME.findall(_VARIABLE.sub(_ANY, text))):
            name, found_suffix, rest = word.rpartition(suffix.encode())
            if not found_suffix or _ANY not in name or rest[:1].isalnum() or rest[:1] == b"_":
                continue
            parts = (name + found_suffix).decode("utf-8", "replace").split("\0")
            if len(parts[0]) >= _LEAST:
                found.append((tuple(parts), path))
    return tuple(found)


def _fits(name: str, parts: tuple[str, ...]) -> bool:
    """Return whether a name consists of parts with something between them; in time linear in the name."""
    if not (name.startswith(parts[0]) and name.endswith(parts[-1])):
        return False
    at = len(parts[0])
    for part in parts[1:-1]:
        if (at := name.find(part, at + 1)) < 0:
            return False
        at += len(part)
    return at < len(name) - len(parts[-1])
