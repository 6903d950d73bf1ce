"""Why a job may hold GPUs that it does not use: it only tries something, wants the node for its memory, or is submitted
with others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.assessment.kept_folders import own_jobs
from gpulint.assessment.shell_defaults import MAX_BYTES, texts
from gpulint.programs.multi_gpu_use import MultiGpuUse, Use
from gpulint.query import query

if TYPE_CHECKING:
    from pathlib import Path

    from gpulint.assessment.subject import Subject
    from gpulint.project import Project

_TRIES = regex.compile(r"(?:^|[_-])(?:debug|smoke|sanity|toy|try|tmp|dummy)(?:[_-]|$)", re.IGNORECASE)
_QUEUE = regex.compile(
    r"^#(?:SBATCH|PBS|BSUB|\$)[^\n#]*?\s(?:-p|-q|--partition|--qos|--queue)[ =]*[\w-]{0,20}(?:debug|devel|(?<!la)test)",
    re.MULTILINE | re.IGNORECASE,
)
"""Queues for short trials."""
_OF_NODE = regex.compile(
    r"\b(?:memory|ram|cpus?|cores?|(?:whole|entire|full|exclusive) nodes?|bandwidth|queue|partition|minimum|policy)\b",
    re.IGNORECASE,
)
"""What a request for GPUs may be for besides the GPUs."""
_SUBMITS = r"\b(?:sbatch|qsub|bsub)\b[^\n`]{{0,200}}?(?:--gres|--gpus|-G|-l|-gpu)\b[^\n`]{{0,200}}\b{name}\b"


def is_trial(subject: Subject) -> bool:
    """Return whether the job is for a trial, by the name of its script or of its queue."""
    documents = {job.document for job in subject.jobs}
    return bool(documents) and all(
        _TRIES.search(document.path.stem) or document.matches(_QUEUE) for document in documents
    )


def uses_no_gpu(subject: Subject) -> bool:
    """Return whether each job around a finding requests GPUs for programs that use none: the request has to go, and
    with it what the GPUs wait for."""
    jobs, use = own_jobs(subject), subject.project.fact(MultiGpuUse)
    return bool(jobs) and all(job.gpus is not None and bool(job.programs) and use.uses(job) is Use.NO for job in jobs)


def is_for_node(subject: Subject) -> bool:
    """Return whether a comment beside the request for the GPUs says that it is for the memory or the cores that come
    with them."""
    for job in subject.jobs:
        document = subject.project.document(job.gpus.place.path) if job.gpus is not None else None
        if document is None or job.gpus is None:
            continue
        line = document.source.line(job.gpus.place.span.line)
        above = document.source.line(job.gpus.place.span.line - 1) if job.gpus.place.span.line > 1 else ""
        notes = [line.lstrip().lstrip("#").partition("#")[2]]
        notes += [above] if above.startswith(("# ", "## ")) else []
        if any(map(_OF_NODE.search, notes)):
            return True
    return False


def is_submitted_otherwise(subject: Subject) -> bool:
    """Return whether scripts or notes of the tree submit each job with a request of their own (``sbatch --gres=gpu:1
    job.sh``)."""
    paths = {job.document.path for job in subject.jobs}
    return bool(paths) and all(_is_submitted(subject.project, path) for path in paths)


@query
def _is_submitted(project: Project, path: Path) -> bool:
    submits = re.compile(_SUBMITS.format(name=re.escape(path.name)))
    found = (project.data(note)[:MAX_BYTES].decode("utf-8", "replace") for note in texts(project) if note != path)
    return any(path.name in text and submits.search(text) for text in found)
