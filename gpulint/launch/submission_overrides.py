"""What a command that submits a job says of it beside its own requests (``sbatch --gres=gpu:8 job.sh``)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.shell.scheduler_directives import on_command_line
from gpulint.finding import Place
from gpulint.launch.job import DeclaredCount

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpulint.documents.base import Document
    from gpulint.documents.tasks import Count
    from gpulint.launch.job import Job
    from gpulint.launch.program_launches import Launch

_GPUS = regex.compile(r"--(gres|gpus)|-G(\d|=|$)")
_NODES = regex.compile(r"--(nodes|ntasks|tasks-per)|-[Nn](\d|=|$)")
_EXCLUSIVE = "--exclusive"
_CONTAINER = regex.compile(r"--container(?:-\w+)*")
"""Options of Slurm and of Pyxis that have the batch script itself run in a container."""


def submitted(job: Job, submissions: Sequence[tuple[Document, Launch]]) -> Job:
    """Return the job with what ``sbatch`` overrides taken as unknown, unless all commands request what the job does,
    and with the container that it puts the job's script into."""
    for document, launch in submissions:
        if job.container is None and (option := _container(launch)) is not None:
            job = replace(job, container=(option, document.path))
    for document, launch in submissions:
        words = [word.text for word in launch.command.argv]
        of_gpus = any(map(_GPUS.match, words)) or any(word.startswith(_EXCLUSIVE) for word in words)
        if (of_gpus or any(map(_NODES.match, words))) and not _agrees(job, launch, words, of_gpus):
            unknown = DeclaredCount(None, Place(document.path, launch.span), "sbatch")
            gpus = None if job.gpus is None and not of_gpus else unknown
            return replace(job, gpus=gpus, nodes=unknown, tasks_per_node=unknown)
    return job


def _container(launch: Launch) -> str | None:
    """``--container-image`` of ``sbatch --container-image=torch.sqsh job.sh``; what follows the script is its own."""
    argv = launch.command.argv
    given = [word.text for word in argv[: len(argv) - len(launch.args)]]
    return next((found[0] for text in given if (found := _CONTAINER.match(text))), None)


def _agrees(job: Job, launch: Launch, words: list[str], of_gpus: bool) -> bool:
    """Return whether a command requests as many GPUs, nodes and tasks as the job itself."""
    if any(word.startswith(_EXCLUSIVE) for word in words):
        return False
    asked = on_command_line(job.document.models, words, launch.span)
    others = [(asked.nodes, job.nodes), (asked.tasks_per_node, job.tasks_per_node)]
    if any(map(_NODES.match, words)) and all(one is None for one, _ in others):
        return False
    if of_gpus and (asked.gpus is None or job.gpus is None or not _is_same(asked.gpus, job.gpus.value)):
        return False
    return all(one is None or _is_same(one, own.value if own is not None else 1) for one, own in others)


def _is_same(asked: Count, own: int | None) -> bool:
    return own is not None and asked.value == own
