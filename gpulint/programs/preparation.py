"""Steps of a job that only prepare or bring data, before the program that uses its GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.finding import Place
from gpulint.launch.job_index import JobIndex
from gpulint.libraries.schedulers import batch_systems
from gpulint.programs.foreign_programs import asks_for_gpus
from gpulint.programs.gpu_jobs import GpuJobs, may_skip, tests_existence
from gpulint.records import dataclass
from gpulint.source import Span
from gpulint.training.loop_contexts import LoopContexts

if TYPE_CHECKING:
    from gpulint.documents.base import Document
    from gpulint.launch.job import Job, JobLaunch
    from gpulint.libraries.commands import TaskRunner
    from gpulint.project import Project

PREPARES = regex.compile(
    r"(?!\w*_(checkpoint|ckpt|model|weights)s?(_|$))(prepare|preprocess|tokeni[sz]e)_?\w*"
    r"|\w+_(prep|preprocess|preprocessing|prepare)",
    re.IGNORECASE,
)
"""Names of programs of the tree that may do nothing but prepare data."""
BRINGS = regex.compile(r"(stage|download|unpack)_?\w*", re.IGNORECASE)
"""Names of programs that bring data onto the machine."""
FOREIGN = regex.compile(
    r"preprocess(ing|_\w+)?|\w+_preprocess|prepare_(data|dataset|corpus)\w*|tokeni[sz]e(_\w+)?|build_vocab\w*"
    r"|extract_(frames|mels?|f0|audio|features?_(audio|text))|make_dataset|encode_dataset|binari[sz]e",
    re.IGNORECASE,
)
"""Names of programs that are not in the tree and most likely compute on the CPU."""


@dataclass(frozen=True, slots=True)
class Step:
    """One such program, where it is started, and what says that GPUs are held then."""

    name: str
    span: Span
    command: Span
    """Of the whole command."""
    evidence: Place
    told: str | None = None
    """The arguments of the program, where they are all known."""


def steps(
    project: Project, document: Document, names: re.Pattern[str], foreign: re.Pattern[str] | None = None
) -> Iterator[Step]:
    """Programs named so that a document starts in GPU jobs; of those that are not in the tree, by ``foreign``."""
    seen: set[Span] = set()
    for launched in project.fact(JobIndex).launches_in(document.path):
        job, start = launched.job, launched.start
        span, name = start.launch.span, _name(start)
        if span in seen or start.launch.uncalled or not _is_named(project, start, names, foreign):
            continue
        evidence = project.fact(GpuJobs).evidence(job)
        last = max(project.fact(GpuJobs).last_uses(job).values(), default=-1)
        if evidence is None or last <= job.numbers[start]:
            continue
        command = start.launch.command
        if keeps_results(project, document, job) or may_skip(job, document, command) or tests_existence(command):
            continue
        seen.add(span)
        words = [word.value for word in start.launch.args]
        told = " ".join(word for word in words if word) if None not in words else None
        yield Step(name, span, command.span, evidence, told)


def keeps_results(project: Project, document: Document, job: Job) -> bool:
    """Return whether a document is a pipeline that keeps what its tasks have made (``dvc.yaml``), and nothing says that
    a job which runs it starts with an empty disk: a batch job does not, and a plain script runs on any machine."""
    rows: tuple[TaskRunner, ...] = project.models.rows("task-runner")
    if not any(row.keeps and document.path.name in row.files for row in rows):
        return False
    return job.gpus is None or job.task.system in batch_systems(project.models)


def _name(start: JobLaunch) -> str:
    if start.program is not None:
        return start.program.name
    return start.launch.module or PurePosixPath(start.launch.program or "").name


def _is_named(project: Project, start: JobLaunch, names: re.Pattern[str], foreign: re.Pattern[str] | None) -> bool:
    if start.program is None:
        stem = (start.launch.module or "").rpartition(".")[2] or PurePosixPath(start.launch.program or "").stem
        known = start.module is None and start.script is None and start.launch.launcher == "python"
        return known and foreign is not None and bool(foreign.fullmatch(stem)) and not asks_for_gpus(start.launch)
    if not names.fullmatch(start.program.stem):
        return False
    module = project.module_at(start.program)
    return (
        module is not None
        and not project.word_index.holds(start.program, b"cuda")
        and not project.fact(LoopContexts).has_training_step(module)
    )
