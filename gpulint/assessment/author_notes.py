"""The machine that an author has, as READMEs and logs tell: ``trained on a CPU``, ``Using device: cpu``."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.assessment.author_machines import statements
from gpulint.launch.gpu_counts import gpus_of
from gpulint.launch.job_index import JobIndex
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.query import query

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpulint.assessment.subject import Subject
    from gpulint.project import Project

_README = regex.compile(r"readme(\.(md|rst|txt))?", re.IGNORECASE)
_NEEDS_NONE = (
    r"\bno (?:dedicated |nvidia |discrete )?gpus?\b (?:is |are )?(?:needed|required|necessary)"
    r"|\b(?:do(?:es)? not|don['\u2019]t|doesn['\u2019]t) (?:need|require|have|use|own) (?:an? |any )?(?:\w{1,12} )?"
    r"gpus?\b|\bgpus? (?:is |are )?(?:not|n['\u2019]t) (?:needed|required|necessary|used)"
)
_ON_CPU = regex.compile(
    r"\b(?:trained|training|trains|(?:were|was|are|is) run|ran|executed|performed)(?: \w{1,20}){0,4} on "
    r"(?:an? |the |my )?(?:\w{1,20} ){0,3}cpu\b(?! (?:cores?|threads?|clusters?)\b)"
    r"|\b(?:is|are|runs?|trains?|trained|training)(?: \w{1,20}){0,2} cpu[- ]only\b(?! \w)"
    r"|\b(?:device|hardware)\**\s?[:|]\**\s?`?cpu\b|" + _NEEDS_NONE
)
"""What a README says, in lower case, of programs that run on a CPU."""
_OF_USE = regex.compile(
    r"inference|infer\b|predict|demo|deploy|serv(?:e|ing)|\btests?\b|evaluat|\bif\b|option|\bci\b|\b(?:can|may|should|also)\b"
    r"|slow|recommend|\bor\b"
)
"""Words of a line that speaks of something else than the training, or of one of several ways."""
_ON_GPU = regex.compile(
    r"gpu|cuda|nvidia|geforce|\b[rg]tx\b|tesla|colab|kaggle|slurm|sbatch|\b[avh]100\b|\bmps\b|apple silicon"
)
_LOG = regex.compile(r"[\w.-]+\.(?:log|out|err)|[\w.-]*(?:log|train|output|stdout|console)[\w.-]*\.txt", re.IGNORECASE)
_FOLDERS = ("logs", "log")
MAX_LOGS, MAX_BYTES, MAX_PROGRAMS = 12, 200_000, 6
"""Most logs that are read for a program, bytes of a text at its start, and programs that are asked for a module."""


def notes_name_cpu(subject: Subject) -> bool:
    """Return whether READMEs above a program say that it runs on a CPU, and name no GPU, and no job asks for one."""
    if subject.module is None or subject.jobs or subject.is_launcher:
        return False
    root = subject.project.root
    folders = [one for one in subject.path.parents if one == root or one.is_relative_to(root)]
    said = {_readme_says(subject.project, folder) for folder in folders}
    return True in said and False not in said and not _jobs_hold_gpus(subject.project)


def says_gpu(subject: Subject) -> bool:
    """Return whether a README above a program names a GPU, or a job of the tree holds one."""
    project = subject.project
    folders = [one for one in subject.path.parents if one == project.root or one.is_relative_to(project.root)]
    return any(_readme_says(project, folder) is False for folder in folders) or _jobs_hold_gpus(project)


@query
def _readme_says(project: Project, folder: Path) -> bool | None:
    """Return whether the README of a folder says that programs run on a CPU; None if it names no hardware."""
    names = [name for name in sorted(project.entries(folder)) if _README.fullmatch(name)]
    text = "\n".join(project.data(folder / one)[:MAX_BYTES].decode("utf-8", "replace") for one in names).lower()
    if _ON_GPU.search(_ON_CPU.sub(" ", text)):
        return False
    return any(_ON_CPU.search(line) and not _OF_USE.search(line) for line in text.splitlines()) or None


@query
def _jobs_hold_gpus(project: Project) -> bool:
    return any(job.gpus is not None and gpus_of(job) != 0 for job in project.fact(JobIndex).jobs())


def logs_name_cpu(subject: Subject) -> bool:
    """Return whether logs beside a program, or beside all programs that import the module, name the CPU as its device
    and no GPU, and no job asks for one."""
    if subject.module is None or subject.jobs or subject.is_launcher or subject.is_notebook:
        return False
    project = subject.project
    users = list(islice(project.fact(GpuPrograms).users(subject.path), MAX_PROGRAMS + 1))
    programs = [one for one in (subject.path, *users) if project.contains(one, b"__main__")] or [subject.path]
    return (
        len(users) <= MAX_PROGRAMS
        and all(_is_logged_on_cpu(project, one) for one in programs)
        and not _jobs_hold_gpus(project)
    )


@query
def _is_logged_on_cpu(project: Project, program: Path) -> bool:
    said = set[bool]()
    for log in islice(_logs(project, program), MAX_LOGS):
        said.update(statements(project.data(log)[:MAX_BYTES].decode("utf-8", "replace")))
    return said == {True}


def _logs(project: Project, program: Path) -> Iterator[Path]:
    """Yield the logs named for a program, or all beside it where it imports all else of its folder."""
    folders = [program.parent, *(program.parent / name for name in _FOLDERS)]
    beside = {program.parent / one for one in project.entries(program.parent) if one.endswith(".py")} - {program}
    alone = beside <= project.imported(program)
    for folder in folders:
        for name in sorted(project.entries(folder)):
            if _LOG.fullmatch(name) and (alone or program.stem in name) and project.is_file(folder / name):
                yield folder / name
