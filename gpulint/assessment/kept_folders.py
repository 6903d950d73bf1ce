"""Folders that outlive a job: what one run puts there, the next one finds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.launch.local_copies import LOCAL
from gpulint.libraries.schedulers import batch_systems
from gpulint.programs.kept_environments import runs_without_image

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.documents.base import Document
    from gpulint.documents.shell import Command
    from gpulint.launch.job import Job
    from gpulint.libraries import Models

SHARED = regex.compile(r"^[\"']?\$\{?(SCRATCH|WORK|WORKDIR|PROJECT|DATA|STORE|GROUP_HOME|PSCRATCH)\w*\b")
"""Variables of clusters that name a folder which all nodes see and later jobs find."""
SCRATCH = regex.compile(r"(?:^|[\"'=])\$?\{?/?scratch\b", re.IGNORECASE)
"""Paths that begin with the disk that many clusters give each node."""
_MIRRORS = regex.compile(
    r"\baws\b[^\n|;&]{0,200} s3 sync\b|\brsync\b"
    r"|\b(?:rclone\b[^\n|;&]{0,200} (?:copy|sync)|(?:s5cmd|azcopy)\b[^\n|;&]{0,200} sync)\b"
)
"""Commands that copy only what is missing or has changed."""
_ON_SHARED = regex.compile(
    r"(?:~|\$\{?HOME\}?|\.{1,2})/|/(?:project|work|home|gpfs|lustre|shared?|nfs|ceph|p?fs|proj|group)\w*/|[\w-]+(?:/|$)"
)
"""Folders that all nodes of a cluster see, as a rule: the person's, a project's, and where the job is submitted."""
_CLAIMED = regex.compile(r"\b(?:persistentVolumeClaim|claimName):")
_EMPTY = regex.compile(r"\bemptyDir:(?![ \t]*[{\n]\s*[\"']?medium)|\b(?:ephemeral|volumeClaimTemplates?):")
"""Volumes that go with their pod, other than the memory for workers."""
ACTIVATED = regex.compile(r"(?:\bsource|(?<!\S)\.)[ \t]+[\"']?(/[\w./-]+)/bin/activate\b")
"""The use of an environment in a folder."""
_MOUNTS = regex.compile(r"\bmountPath:[ \t]*[\"']?(/[\w./-]+)")


def with_command(subject: Subject) -> list[Job]:
    """Return the jobs that run the command of a finding."""
    line = subject.finding.span.line
    return [
        job
        for job in subject.jobs
        if any(item.document.path == subject.path and item.command.span.line == line for item in job.commands)
    ]


def own_jobs(subject: Subject) -> list[Job]:
    """Return the jobs that run the command of a finding, not what submits them as text (``sbatch <<EOF``); all of the
    file if none is known to."""
    return with_command(subject) or [*subject.jobs]


def copies_what_is_missing(subject: Subject) -> bool:
    """Return whether a command copies only what its folder lacks (``aws s3 sync``, ``rsync``), into one that outlives
    the job: a shared one of a cluster, or a volume that is claimed."""
    document, span = subject.document, subject.finding.span
    if document is None or not subject.is_launcher or not subject.jobs:
        return False
    source = document.cell_source(span.cell)
    line = source.line(span.line)
    written = line[span.column - 1 : span.end_column - 1] if span.line == span.end_line else line
    found = _MIRRORS.search(written)
    if found is None:
        return False
    own, folder = own_jobs(subject), written.split()[-1].strip("\"'")
    emptied = any(item.command.name == "rm" and folder in _words(item.command) for job in own for item in job.commands)
    return not emptied and all(_outlives(subject.project.models, job, document, folder) for job in own)


def _words(command: Command) -> tuple[str, ...]:
    return tuple(word.text.rstrip("/*") for word in command.argv)


def _outlives(models: Models, job: Job, document: Document, folder: str) -> bool:
    """Return whether a folder stays when its job ends."""
    if LOCAL.search(folder) or SCRATCH.search(folder):
        return False
    if job.task.system in batch_systems(models):
        return runs_without_image(models, job) and bool(SHARED.match(folder) or _ON_SHARED.match(folder))
    return in_claimed(job, document, folder)


def in_claimed(job: Job, document: Document, folder: str) -> bool:
    """Return whether a folder is in a volume that a pod claims, where all volumes of its file are claimed."""
    if job.task.image is None or document.matches(_EMPTY) or not document.matches(_CLAIMED):
        return False
    mounts = _MOUNTS.findall(document.source.text)
    return any(f"{folder}/".startswith(f"{mount.rstrip('/')}/") for mount in mounts)
