"""Whether configurations, scripts, notes and launching programs of a tree set the number of workers of loaders."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.finding import Severity
from gpulint.query import stored

if TYPE_CHECKING:
    from pathlib import Path

    from gpulint.assessment.subject import Subject
    from gpulint.project import Project

_WORKERS = regex.compile(
    rb"""\bworkers["']?\s*[:= ]\s*["']?(\d{1,9})\b|_workers["']?\s*[:= ]\s*["']?(\d{1,9})\b"""
    rb"""|_workers["']?\s*:\s*\{?\s*["']?values?["']?\s*:\s*[\[-]?\s*(\d{1,9})\b""",
    re.IGNORECASE,
)
"""The number of workers in a configuration or a script, also as a variable of the shell, or the first number that a
sweep tries."""
_SETTINGS = frozenset({".yaml", ".yml", ".json", ".toml", ".sh", ".sbatch", ".slurm", ".cfg", ".ini"})
_RECIPES = regex.compile(r"^(Dockerfile|Containerfile|Makefile|[Jj]ustfile)(\.|$)|\.Dockerfile$|^\.env(\.|$)")
"""Files of other types that set variables or start programs."""
_VARIABLE = regex.compile(
    rb"""(?<!-)\b(?:\w+_)?workers\s*[:?]?=\s*(\d+)\b|--[\w.-]+_workers[ =](\d+)\b""", re.IGNORECASE
)
"""The same there, where servers have ``--workers`` as well."""
_IN_TEXT = regex.compile(
    rb"""^[{ \t]*["']?-{0,2}(?:[\w-]*[_-])?workers["']?\s*[:= \n]\s*(\d+)[ \t]*[,}\r]?""", re.IGNORECASE | re.MULTILINE
)
"""A line of a file of options that a program reads: ``workers = 8``, ``--num_workers`` above ``8``."""
_JOINS = regex.compile(rb"""["']--\{\w+\}""")
"""A program that makes options of the keys of a table: ``f"--{key}={value}"``."""
_OF_SETTINGS = regex.compile(r"^(conf|cfg|arg|option|setting|param|experiment)", re.IGNORECASE)
MAX_OPTIONS = 200
"""Most texts and JSON files that are read for options."""
_NOTES = (".md", ".rst", ".txt")
_ORDERED = regex.compile(rb"""--[\w.-]*workers[ =](\d+)\b""")
"""The number of workers in a command."""
_LISTED = regex.compile(rb"""["']--[\w.-]*workers["']\s*,\s*["'](\d+)["']|[\s"']--[\w.-]*workers[ =](\d+)\b""")
"""The same in a program that starts others: ``["python", "train.py", "--workers", "8"]``."""


def has_workers_set(subject: Subject) -> bool:
    """Return whether each script, configuration and documented command that names the number of workers, which is 0 by
    default, sets it."""
    return subject.finding.severity is Severity.INFO and _sets_workers(subject.project)


def _options(project: Project) -> list[Path]:
    """The texts and JSON files at the top of the tree, and in its folders of settings."""
    top = [project.root / name for name in project.entries(project.root)]
    folders = [path for path in top if _OF_SETTINGS.search(path.name) and not path.suffix]
    files = [*top, *(folder / name for folder in folders for name in project.entries(folder))]
    return [path for path in files if path.suffix in (".txt", ".json")][:MAX_OPTIONS]


@stored("workers set")
def _sets_workers(project: Project) -> bool:
    found = [
        int(next(filter(None, match.groups())))
        for path in project.files
        if (pattern := _WORKERS if path.suffix in _SETTINGS else _VARIABLE if _RECIPES.search(path.name) else None)
        for match in pattern.finditer(project.data(path))
    ]
    notes = [project.root / name for name in project.entries(project.root) if name.lower().endswith(_NOTES)]
    found += (int(match[1]) for path in _options(project) for match in _IN_TEXT.finditer(project.data(path)))
    found += (int(match[1]) for path in notes for match in _ORDERED.finditer(project.data(path)))
    programs = [path for path in project.python_files_with(b"workers") if not project.is_test(path)]
    found += (int(match[1] or match[2]) for path in programs for match in _LISTED.finditer(project.data(path)))
    joining = [path for path in programs if _JOINS.search(project.data(path))]
    found += (
        int(next(filter(None, match.groups()))) for path in joining for match in _WORKERS.finditer(project.data(path))
    )
    return bool(found) and all(found)
