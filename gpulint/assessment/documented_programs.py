"""Programs that commands of notes and scripts start: ``python inference.py --ckpt model.pt`` in a README."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.assessment.copies import share_lines
from gpulint.assessment.file_facts import inspects
from gpulint.assessment.shell_defaults import contents
from gpulint.launch.job_index import JobIndex
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.query import query

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.project import Project

_STARTS = regex.compile(
    r"(?<![\w./-])(?:python[\d.]{0,5}|torchrun|accelerate[ \t]{1,9}launch|deepspeed|ipython)[ \t]"
    r"(?P<words>[^\n#|;&`]{0,400})"
)
_PROGRAM = regex.compile(
    r"(?<![\w=/.-])(?:-m[ \t]{1,9}(?P<module>[A-Za-z_][\w.]{0,200})|(?P<file>[\w./-]{1,200}\.py)(?![\w.]))"
)
_FILE = regex.compile(r"(?<![\w./-])(?:\./)?(?P<file>[\w./-]{1,200}\.(?:py|ipynb))(?!\w)")
MAX_PROGRAMS = 40
"""Most documented modules that are asked whether they are programs."""


def inspects_in_no_command(subject: Subject) -> bool:
    """Return whether the file is there to evaluate, show or export what was trained, and no command of the notes runs
    it."""
    return inspects(subject) and subject.finding.path not in _started(subject.project)


def is_beside_documented(subject: Subject) -> bool:
    """Return whether notes and scripts name programs, but no file names the module of a place nor one that imports
    it."""
    module, project = subject.module, subject.project
    if module is None or subject.is_notebook or subject.is_launcher or subject.jobs:
        return False
    return not _is_named(project, module.path) and _documents_program(project)


def is_documented(project: Project, path: Path) -> bool:
    """Return whether notes, scripts or jobs name a program."""
    return path in _documented(project)


@query
def has_readme(project: Project) -> bool:
    """Return whether there are notes at the root of a tree, which may name its programs."""
    return any(name.lower().startswith("readme") for name in project.entries(project.root))


@query
def _is_named(project: Project, path: Path) -> bool:
    """Return whether notes, scripts or other files of the tree name a module, one that imports it, or one of which it
    is a copy."""
    named = _documented(project)
    return any(
        one in named or one.suffix == ".ipynb" or _is_in_files(project, one)
        for one in (path, *project.fact(GpuPrograms).users(path))
    ) or any(share_lines(project, path, one) for one in named if one.parent == path.parent)


@query
def _is_in_files(project: Project, path: Path) -> bool:
    """Return whether a file other than the module itself holds its file name, or a configuration its name."""
    stem = os.fsencode(path.stem)
    whole = re.compile(rb"(?<![\w-])%b(?![\w-])" % re.escape(stem))
    return any(
        project.contains(other, stem + b".py") or (other.suffix != ".py" and project.finds(other, whole))
        for other in project.files_with(stem)
        if other != path
    )


@query
def _documents_program(project: Project) -> bool:
    """Return whether notes, scripts or jobs name a program: what no module imports, or what starts itself."""
    documented = sorted(_documented(project))[:MAX_PROGRAMS]
    return any(path.suffix == ".py" and is_program(project, path) for path in documented)


@query
def is_program(project: Project, path: Path) -> bool:
    """Return whether a module starts itself, or no module imports it."""
    return project.contains(path, b"__main__") or not any(True for _ in project.fact(GpuPrograms).users(path))


@query
def _documented(project: Project) -> frozenset[Path]:
    """Return the programs that notes, scripts and jobs name."""
    named = dict[str, list[Path]]()
    for path in project.python_files:
        named.setdefault(path.name, []).append(path)
    found = {program for job in project.fact(JobIndex).jobs() for program in job.programs}
    for _, text in contents(project):
        for match in _FILE.finditer(text):
            end = f"/{match['file']}"
            alike = named.get(end.rpartition("/")[2], ())
            found.update(path for path in alike if f"/{project.place(path)}".endswith(end))
    return frozenset(found | _started(project))


@query
def _started(project: Project) -> frozenset[Path]:
    """Return the programs that commands of notes and scripts start."""
    named = dict[str, list[Path]]()
    for path in project.python_files:
        named.setdefault(path.name, []).append(path)
    found = set[Path]()
    for note, text in contents(project):
        for command in _STARTS.finditer(text):
            if (match := _PROGRAM.search(command["words"])) is not None:
                given = match["file"] or match["module"].replace(".", "/") + ".py"
                found.update(_meant(project, note.parent, given.removeprefix("./"), named))
    return frozenset(found)


def _meant(project: Project, folder: Path, given: str, named: dict[str, list[Path]]) -> list[Path]:
    """Return the file that a command in a folder starts: from there, from the root of the tree, or the only one."""
    ends = [path for path in named.get(given.rpartition("/")[2], ()) if f"/{project.place(path)}".endswith(f"/{given}")]
    near = [path for path in ends if path in (folder / given, project.root / given)]
    return near or (ends if len(ends) == 1 else [])
