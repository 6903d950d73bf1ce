"""What it detects
A job that stays alive after its last computation: ``sleep``, ``tail -f /dev/null`` or ``while true``
after the training command of a script or job spec, ``time.sleep``, ``while True`` or ``input()`` after the
training in Python, and a ``wait`` in a batch job that also waits for a model server, which never ends.

Recognizes ``torchrun``, ``accelerate launch``, ``deepspeed``, ``horovodrun``, ``mpirun``, ``srun``, ``jsrun``,
``aprun``, ``composer``, ``colossalai run``, ``lightning run`` and ``fabric run`` as computations; Slurm, PBS, LSF and
SGE directives; job specs of Kubernetes (with Kubeflow's and Volcano's jobs), Ray, SkyPilot, dstack, Azure ML,
SageMaker, Determined, Lightning workflows and docker-compose. Kubernetes' Deployments, InferenceServices and
RayServices are left alone.

Why it costs GPU time
The scheduler frees the GPUs only when the job ends, so they idle for the whole wait (the study's Unreleased Job).

When to ignore this rule
Waits before the work, between retries or while polling; servers that are kept alive on purpose; a second of grace.
Waits that keep a viewer or server running for a person, as the text beside them says, have low impact; those that the
options of all launchers leave out are not reported.

Fix safety
Unsafe: logs or results may be collected in that time. Flush logs, or copy them in the script, instead of waiting.

References
https://kubernetes.io/docs/concepts/workloads/controllers/job/
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from gpulint import regex
from gpulint.documents.base import Document
from gpulint.documents.shell import Command, Script
from gpulint.documents.tasks import Task
from gpulint.finding import Finding, Place, Severity
from gpulint.fix import Safety
from gpulint.impact import Cost
from gpulint.launch.idle_commands import endless, sleeps
from gpulint.launch.job import Job
from gpulint.launch.job_index import JobIndex
from gpulint.launch.model_servers import server, waits_for_server
from gpulint.launch.program_launches import launch
from gpulint.libraries.gpu_libraries import PLAIN_COMMANDS
from gpulint.libraries.schedulers import batch_systems
from gpulint.programs.gpu_jobs import GpuJobs
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule
from gpulint.source import Span
from gpulint.training.kept_running import keeps_running, tells_of_person
from gpulint.training.post_training import last_statements

_COST = Cost("pause")
_LEAST = 30
"""Seconds; shorter waits let logs be flushed."""
_QUIET = (PLAIN_COMMANDS | {"sync", "kill", "pkill", "sleep", "tail", "read", ":"}) - {"eval", "."}
_POWERS_OFF = frozenset({"shutdown", "poweroff", "halt", "scancel"})
_STOPS = regex.compile(
    r"\b(?:runpodctl|vastai|sky|lightning|gcloud compute instances|aws ec2|az vm|brev)\s(?:[\w-]+\s)?"
    r"(?:stop|remove|destroy|down|delete|terminate|deallocate|autostop)\b|\b(?:stop|terminate)-instances\b"
)
_END = "end the job with its last computation: write logs and results before it ends instead of waiting for them"
_OPTION = "in jobs, end with the last computation: wait only where an option that a person sets asks for it"
_UNUSED = "assuming that nobody uses what it keeps running"
_ARGUMENTS = ('"$@"', "$@", "$*", '"${@}"')
"""A wrapper's way to run whatever it is given."""
_SERVER = regex.compile(
    r"^kind:\s*[\"']?(?:Deployment|InferenceService|RayService)\b"
    r"|^[ \t]+type:\s*[\"']?(?:vs_code|jupyter_lab|ssh)\b",  # interactive services of an Azure ML job
    re.MULTILINE,
)
_USES_GPUS = regex.compile(r"CUDA|\bNCCL|\bnvidia|\b(?:num_)?gpus?\b", re.IGNORECASE)
"""Words of a wrapper that is for programs on GPUs."""


@dataclass(frozen=True, slots=True)
class Wait:
    """What waits."""

    place: Place
    language: str
    kept: bool = False
    """Whether it keeps something running for a person, as the text beside it says."""


def check(document: Document, project: Project) -> Iterator[Finding]:
    for script in document.scripts:
        if (found := _in_shell(script)) is not None and _holds_gpus(document, *found, project):
            wait, work = found
            seconds, forever = sleeps(wait), endless(wait)
            text = forever or " ".join(word.text for word in wait.argv)
            message = f"`{text}` keeps the GPUs after the work has ended"
            cost = None if forever or seconds is None else Cost("pause", seconds=(seconds, seconds))
            kept = any(map(tells_of_person, _told_between(script, work, wait)))
            yield _finding(document, wait.span, message, work.span, "shell", cost, kept=kept)
        elif (stuck := waits_for_server(script)) is not None and _is_batch(document):
            yield _server_finding(document, *stuck)
    module = project.module(document)
    waits = list(last_statements(project, module)) if module is not None else []
    if module is None or not waits or not project.fact(GpuPrograms).runs_on_gpu(module):
        return
    for statement, work_node in waits:
        text = module.syntax.text(statement).splitlines()[0]
        span = module.syntax.span(statement)
        message, work_span = f"`{text}` keeps the GPUs after training has ended", module.syntax.span(work_node)
        yield _finding(document, span, message, work_span, "python", kept=keeps_running(module, statement))


def _told_between(script: Script, work: Command, wait: Command) -> Iterator[str]:
    """Yield what a script prints between what computes and what waits."""
    begun = False
    for command in script.walk():
        if command is wait:
            return
        begun = begun or command is work
        if begun and command.name in ("echo", "printf"):
            yield " ".join(word.text for word in command.argv)


def _in_shell(script: Script) -> tuple[Command, Command] | None:
    """(what waits, the last command that computes) of a script that ends in waiting."""
    work: Command | None = None
    wait: Command | None = None
    for command in script.walk():
        if command.in_substitution or command.in_function is not None:
            continue
        if _waits(command):
            if work is not None and not command.conditional:
                wait = wait or command
        elif _works(command):
            if command.in_background or command.in_loop:
                return None
            work, wait = command, None
        elif wait is None and _ends_machine(command):
            return None
        elif command.name not in _QUIET:
            wait = None
    return (wait, work) if wait is not None and work is not None else None


def _ends_machine(command: Command) -> bool:
    """Return whether a command gives the machine back, or will soon: what waits after it is stopped."""
    return command.name in _POWERS_OFF or _STOPS.search(" ".join(word.text for word in command.argv)) is not None


def _waits(command: Command) -> bool:
    if endless(command) is not None:
        return True
    seconds = sleeps(command)
    return seconds is not None and seconds >= _LEAST and not command.in_loop and not command.background


def _works(command: Command) -> bool:
    """Return whether a command computes: a program that is launched, or whatever the script was given to run."""
    if command.words and command.words[0].raw in _ARGUMENTS:
        return True
    started = launch(command)
    if started is None or started.launcher in ("source", "sbatch") or command.name in PLAIN_COMMANDS:
        return False
    if started.launcher == "shell":
        return started.program is not None
    return started.module not in ("pip", "venv", "http.server")


def _holds_gpus(document: Document, wait: Command, work: Command, project: Project) -> bool:
    """Return whether GPUs are held while it waits, and what ran before is known to have ended rather than to serve."""
    if document.matches(_SERVER):
        return False
    wraps = bool(work.words) and work.words[0].raw in _ARGUMENTS
    started = launch(work)
    linked = project.fact(JobIndex).launches_at(document.path, work.span)
    if not wraps and started is not None and started.launcher == "shell":
        scripts = [item.start.script for item in linked if item.start.script is not None]
        if not scripts or any(command.background for one in scripts for part in one.scripts for command in part.walk()):
            return False
    jobs = _jobs_around(document, wait, project)
    if any(project.fact(GpuJobs).evidence(job) is not None for job in jobs):
        return True
    if any(job.document is not document for job in jobs):
        return False
    if started is not None and started.distributed and any(_is_worker(document, task, work) for task in document.tasks):
        return True
    if wraps and document.kind is Kind.SHELL:
        return document.matches(_USES_GPUS)
    return started is not None and started.trains and any(job.task.system in _unstated(job) for job in jobs)


def _jobs_around(document: Document, wait: Command, project: Project) -> list[Job]:
    """The jobs that wait: those that call the script, if there are any, which say what machine it is for."""
    jobs = project.fact(JobIndex).jobs_with(document.path)
    around = [
        job
        for job in jobs
        if any(item.document.path == document.path and item.command.span == wait.span for item in job.commands)
    ]
    return [job for job in around if job.document is not document] or around


def _is_worker(document: Document, task: Task, work: Command) -> bool:
    """Return whether a task requests GPUs in the same object, so that what starts programs elsewhere uses them."""
    first, last = sorted((task.span, work.span), key=lambda span: span.line)
    lines = (document.source.line(number) for number in range(first.line, last.line))
    return _requests(task) and not any(line.startswith("---") for line in lines)


def _unstated(job: Job) -> frozenset[str]:
    """The systems whose machines may have GPUs that nobody requests by number."""
    return batch_systems(job.document.models) if job.gpus is None else frozenset()


def _requests(task: Task) -> bool:
    return task.resources.gpus is not None and task.resources.gpus.value != 0


def _is_batch(document: Document) -> bool:
    return any(
        task.system in batch_systems(document.models) and (task.resources.gpus is None or _requests(task))
        for task in document.tasks
    )


def _server_finding(document: Document, wait: Command, started: Command) -> Finding:
    name = server(started)
    assert name is not None
    return RULE.finding(
        document.path,
        wait.span,
        f"`wait` also waits for the server (`{name[0]}`), which never ends",
        help="wait only for the work (`work=$!` after its command, then `wait $work`); servers stop with the job",
        payload=Wait(Place(document.path, wait.span), "server"),
        related=(Place(document.path, started.span, "the server starts here"),),
    )


def _finding(
    document: Document,
    span: Span,
    message: str,
    work: Span,
    language: str,
    cost: Cost | None = None,
    *,
    kept: bool = False,
) -> Finding:
    return RULE.finding(
        document.path,
        span,
        message,
        help=_OPTION if kept else _END,
        severity=Severity.WARNING if kept else None,
        payload=Wait(Place(document.path, span), language, kept),
        related=(Place(document.path, work, "the last computation"),),
        cost=replace(cost or _COST, assumed=_UNUSED) if kept else cost,
    )


RULE = Rule(
    code="GPU105",
    name="sleep-after-train",
    category=Category.UNRELEASED_JOB,
    dimension=Dimension.JOB,
    severity=Severity.ERROR,
    kinds=frozenset({Kind.SHELL, Kind.JOBSPEC, Kind.WORKFLOW, Kind.PYTHON, Kind.NOTEBOOK}),
    tokens=(
        ("sleep", "tail -f", "while True", "while true", "while 1", "while :", "input(", "serve", "launch_server"),
    ),
    # A server matters only where something waits for it; "reserved" is in the licence of many files.
    code_tokens=(("sleep", "tail -f", "while True", "while true", "while 1", "while :", "input(", "wait"),),
    summary="GPUs stay allocated after the last computation",
    why="the GPUs are freed only when the job ends, so they idle for the whole wait",
    evidence=(Evidence("Unreleased Job is one of the study's fifteen categories of low GPU utilization"),),
    check=check,
    cost=_COST,
    fix=Safety.UNSAFE,
    bad="""\
#SBATCH --gres=gpu:1
python train.py
sleep 3600
""",
    good="""\
#SBATCH --gres=gpu:1
python train.py
""",
    references=("https://kubernetes.io/docs/concepts/workloads/controllers/job/",),
)
