"""Whether anything in a tree shows that its programs run on three or more GPUs: jobs, launchers, options, lists of
devices, what is written about them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.assessment.file_facts import is_of_others_or_measures
from gpulint.assessment.jobs import gpus_of
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
_SAID = regex.compile(
    rb"\b([3-9]|16|32|64|three|four|eight)[-\s]{0,2}(x|\xc3\x97)?\s?((nvidia|tesla|geforce|quadro|rtx|gtx)\s)*"
    rb"(gpus?|[avhpk]\d{2,3}|titan|[2-5]0[6-9]0|1080)s?\b",
    re.IGNORECASE,
)
"""Three or more GPUs in a README."""
_STARTED = (
    r"(?:VISIBLE_DEVICES=[\"'\\\\]*(?P<gpus>[\d,]+)[\"'\\\\]*\s+)?"
    r"\b(?:python[\d.]*|torchrun)\s[^\n|;&]{{0,300}}?\b{name}\b"
)
"""A command that starts a program."""
_TEXTS = frozenset(
    {".py", ".ipynb", ".sh", ".sbatch", ".slurm", ".pbs", ".yaml", ".yml", ".json", ".toml", ".cfg", ".ini"}
)
_NOTES = (".md", ".rst", ".txt")
MAX_BYTES = 300_000
"""Largest file that is read; larger ones hold data."""


MANY = 3
"""GPUs from which on one process for all of them costs enough to rewrite it (readers passed over findings on two)."""


def shows_few_gpus(subject: Subject) -> bool:
    """Return whether no job that runs the place holds three or more GPUs, and no text of the tree names as many, or all
    commands in its texts show the program one."""
    counts = [gpus_of(job) for job in subject.jobs if job.gpus is not None]
    if any(count is not None and count >= MANY for count in counts):
        return False
    if counts and None not in counts:
        return True
    return not _names_several(subject.project) or _is_always_shown_one(subject.project, subject.path)


@stored("commands with one GPU")
def _is_always_shown_one(project: Project, path: Path) -> bool:
    """Return whether commands in notes, notebooks and scripts start a program, each with one GPU."""
    written = re.compile(_STARTED.format(name=re.escape(path.name)).encode())
    shown = [match["gpus"] for text in texts_around(project, path) for match in written.finditer(text)]
    return bool(shown) and all(gpus is not None and gpus.isdigit() for gpus in shown)


def texts_around(project: Project, path: Path) -> Iterator[bytes]:
    """Yield the notes, notebooks, scripts and other programs of a tree, which may show how a program is started."""
    texts = [one for one in project.files if one.suffix in _TEXTS and one != path]
    notes = [project.root / name for name in project.entries(project.root) if name.lower().endswith(_NOTES)]
    yield from (project.data(one)[:MAX_BYTES] for one in dict.fromkeys((*texts, *notes)))


@stored("several GPUs")
def _names_several(project: Project) -> bool:
    notes = [project.root / name for name in project.entries(project.root) if name.lower().endswith(_NOTES)]
    texts = [path for path in project.files if path.suffix in _TEXTS and not _is_aside(project, path)]
    return any(_SAID.search(project.data(path)[:MAX_BYTES]) for path in notes) or any(
        _names_several_itself(project, path) for path in (*texts, *notes)
    )


def _is_aside(project: Project, path: Path) -> bool:
    """Return whether a file tells nothing of the GPUs that the programs of the tree use."""
    return project.is_test(path) or is_of_others_or_measures(path.relative_to(project.root).as_posix())


@stored("several GPUs in a file")
def _names_several_itself(project: Project, path: Path) -> bool:
    """An answer of its own for each file, so that an edit of one costs no search of the others."""
    return _SEVERAL.search(project.data(path)[:MAX_BYTES]) is not None
