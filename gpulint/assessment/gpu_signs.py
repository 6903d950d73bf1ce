"""Whether anything shows that a program runs on three or more GPUs: its jobs, commands that start it, lists of devices
and defaults in its own modules, and configuration files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.assessment.file_facts import is_of_others_or_measures
from gpulint.launch.gpu_counts import gpus_of
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.programs.multi_gpu_use import MultiGpuUse
from gpulint.query import stored

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpulint.assessment.subject import Subject
    from gpulint.project import Project

_MORE = rb"([3-9]|\d\d+)\b"
_LISTED = rb"[\"'\[({ ]*\d+\s*,\s*\d+\s*,\s*\d"
_SEVERAL = regex.compile(
    b"|".join(
        (
            rb"VISIBLE_DEVICES[\"']?\]?\s*[=,:]" + _LISTED,
            rb"devices?_?(ids?|list)?\s*=" + _LISTED,
            rb"device_?ids\s*=\s*(list\()?range",
            rb"nproc[-_]per[-_]node[= ]+(gpu|" + _MORE + rb")",
            rb"\b(n|num|number|count|total)[-_]?(of[-_]?)?(gpus?|devices)([-_]per[-_]node)?[\"']?\s*[=: ]\s*[\"']?"
            + _MORE,
            rb"\bgpus?([-_]?(ids?|list|num|count))?[\"']?\s*[=: ]" + _LISTED,
            rb"\bgpus([-_](per[-_]node|num|count))?[\"']?\s*[=: ]\s*[\"'\[(]*" + _MORE,
            rb"gpus?_?(ids?)?[\"'][^\n]{0,80}default\s*=" + _LISTED,
            rb"gpus[\"'][^\n]{0,80}default\s*=\s*" + _MORE,
            rb"gres=gpu:(\w+:)?" + _MORE,
            rb"\bngpus=" + _MORE,
        )
    ),
    re.IGNORECASE,
)
"""Settings of three or more GPUs, in code, commands and configurations. One number after ``gpu`` is which GPU it is."""
_STARTED = (
    r"(?:VISIBLE_DEVICES=[\"'\\\\]*(?P<gpus>[\d,]+)[\"'\\\\]*\s+)?"
    r"\b(?:python[\d.]*|torchrun)\s[^\n|;&]{{0,300}}?\b{names}\b(?P<options>(?:[^\n\\|;&]|\\\n){{0,600}})"
)
"""A command that starts one of some programs."""
_SETTINGS = frozenset({".yaml", ".yml", ".json", ".toml", ".cfg", ".ini"})
_TEXTS = frozenset(
    {".py", ".ipynb", ".sh", ".sbatch", ".slurm", ".pbs", ".yaml", ".yml", ".json", ".toml", ".cfg", ".ini"}
)
_NOTES = (".md", ".rst", ".txt")
MAX_BYTES = 300_000
"""Largest file that is read; larger ones hold data."""


MANY = 3
"""GPUs from which on one process for all of them costs enough to rewrite it (readers passed over findings on two)."""


def shows_few_gpus(subject: Subject) -> bool:
    """Return whether no job that runs the place holds three or more GPUs, and nothing else names as many for the
    program, or all commands in the texts of the tree show it one."""
    counts = [gpus_of(job) for job in subject.jobs if job.gpus is not None]
    if any(count is not None and count >= MANY for count in counts):
        return False
    if counts and None not in counts:
        return True
    return not _is_given_several(subject.project, subject.path)


@stored("several GPUs of a program")
def _is_given_several(project: Project, path: Path) -> bool:
    """Return whether a setting or a command names several GPUs for the programs that run a module."""
    programs = [path, *project.fact(GpuPrograms).users(path)]
    names = dict.fromkeys(one.name for one in programs)
    written = _STARTED.format(names=f"({'|'.join(map(re.escape, names))})")
    pattern, named = re.compile(written.encode()), [name.encode() for name in names]
    # Most texts name no program, which a search for the names alone tells in a fraction of the time.
    texts = (text for text in texts_around(project, path) if any(name in text for name in named))
    commands = [match for text in texts for match in pattern.finditer(text)]
    if any(_SEVERAL.search(match[0]) for match in commands):
        return True
    if commands and all(match["gpus"] is not None and match["gpus"].isdigit() for match in commands):
        return False
    modules = [one for program in programs for one in project.fact(MultiGpuUse).of(program).files]
    settings = [one for one in project.files if one.suffix in _SETTINGS and not _is_aside(project, one)]
    return any(_names_several(project, one) for one in dict.fromkeys((*modules, *settings)))


def texts_around(project: Project, path: Path) -> Iterator[bytes]:
    """Yield the notes, notebooks, scripts and other programs of a tree, which may show how a program is started."""
    texts = [one for one in project.files if one.suffix in _TEXTS and one != path]
    notes = [project.root / name for name in project.entries(project.root) if name.lower().endswith(_NOTES)]
    yield from (project.data(one)[:MAX_BYTES] for one in dict.fromkeys((*texts, *notes)))


def _is_aside(project: Project, path: Path) -> bool:
    """Return whether a file tells nothing of the GPUs that the programs of the tree use."""
    return project.is_test(path) or is_of_others_or_measures(path.relative_to(project.root).as_posix())


@stored("several GPUs in a file")
def _names_several(project: Project, path: Path) -> bool:
    """An answer of its own for each file, so that an edit of one costs no search of the others."""
    return _SEVERAL.search(project.data(path)[:MAX_BYTES]) is not None
