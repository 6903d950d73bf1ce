"""What would have to hold for a program that a job starts to leave GPUs of the job without work, and is not seen."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.launch.gpu_counts import processes
from gpulint.launch.transfer_commands import only_prepares
from gpulint.libraries.gpu_libraries import PLAIN_COMMANDS, Approach
from gpulint.programs.command_files import says
from gpulint.programs.multi_gpu_use import MultiGpuUse, Program
from gpulint.query import asked_once

if TYPE_CHECKING:
    from gpulint.launch.job import Job, JobLaunch
    from gpulint.project import Project

_LAUNCHER = regex.compile(
    r"\b(?:torchrun|torch\.distributed\.(?:run|launch)|accelerate launch|deepspeed|horovodrun|mpirun|mpiexec)\b"
)
_LAUNCHES = regex.compile(r"\bhydra[/.]launcher\b|--n[-_]?jobs\b")
"""Arguments with which a program starts processes itself."""
_RUNS = regex.compile(r"\b(?:subprocess|Popen|os\.(?:system|popen|exec\w+|posix_spawn\w*)|pexpect|sh\.Command)\b")
_NUMBERS = regex.compile(
    r"range\(\s*(?:torch\.cuda\.)?device_count\(|%\s*\(?(?:torch\.cuda\.)?device_count\("
    r"|^[ \t]*(?:self\.)?\w+[ \t]*=[^\n#]*(?<![\w.])(?:torch\.cuda\.)?device_count\(\)",
    re.MULTILINE,
)
"""Numbers of GPUs that a program goes through or keeps."""
MAX_STAGES = 32
"""Launches of a job from which on more nobody says which of them takes long."""
_ASIDE = frozenset({"eval", "jq", "bc", "ml", "tput", "logger", "mail", "lsof", "timedatectl"})
"""Commands beside programs that compute nothing, or start what is known."""
_SEVERAL_EACH = regex.compile(
    r"\brank\w*\)?[ ]*\*[ ]*(?:\d|\w*(?:gpu|dev))|(?:gpus?|devices?)_per_(?:rank|process|proc|replica)\b"
)
"""Numbers of the first of several GPUs of a process."""


def assumption(project: Project, job: Job, start: JobLaunch, gpus: int, program: Program | None, count: int = 1) -> str:
    """Return what is not proven of a launch with ``count`` processes that uses fewer than ``gpus`` GPUs, as a part of a
    sentence; empty if all is."""
    if count == 1 and says(project, start, _LAUNCHES):
        return "assuming that it starts no processes of its own"
    if program is not None and count == 1:
        if _starts_others(program):
            return "assuming that it starts no processes of its own"
        by_process = any(sign.approach is Approach.PER_PROCESS for sign in program.parallel)
        if not by_process and not start.launch.distributed and program.mentions(_NUMBERS):
            return "assuming that it goes through no GPUs by number"
        unread = program.unread(all_unknown=not by_process and not start.launch.distributed)
        if unread:
            return f"assuming that `{unread[0]}` uses one GPU"
    return of_other_stages(project, job, start, gpus)


def of_other_stages(project: Project, job: Job, start: JobLaunch, gpus: int) -> str:
    """Return what is not proven of the other launches and commands of a job; empty if none of them may use more GPUs
    than this one."""
    if len(job.launches) > MAX_STAGES or any(_may_use_more(project, job, start, other, gpus) for other in job.launches):
        return "assuming that this stage takes as long as others of the job"
    unknown = _unknown_command(job)
    return f"assuming that `{unknown}` uses no GPU" if unknown else ""


def _may_use_more(project: Project, job: Job, start: JobLaunch, other: JobLaunch, gpus: int) -> bool:
    """Return whether another launch of a job may use all its GPUs."""
    if other is start or other.script is not None or other.launch.uncalled:
        return False
    found = processes(project, job, other)
    beside = project.fact(MultiGpuUse).started(other) if other.program != start.program else None
    return found is None or found[0] >= gpus or (beside is not None and _drives_several(beside))


@asked_once
def _unknown_command(job: Job) -> str:
    """The first command of a job that may use a GPU, as far as is known; empty if none does."""
    models = job.document.models
    for item in job.commands:
        command = item.command
        if command.in_substitution or id(command) in job.starters or only_prepares(models, command):
            continue
        if command.name and command.name not in PLAIN_COMMANDS | _ASIDE | command.script.functions.keys():
            return command.name
    return ""


def _drives_several(program: Program) -> bool:
    """Return whether one process of a program may use all GPUs."""
    signs = {sign.approach for sign in program.parallel}
    return program.spreads_model or not signs <= {Approach.PER_PROCESS}


def has_several_each(program: Program) -> bool:
    """Return whether each process takes several GPUs by number (``first = rank * 2``)."""
    return program.mentions(_SEVERAL_EACH)


def _starts_others(program: Program) -> bool:
    """Return whether a program that runs commands has one with a launcher (``os.system("torchrun ...")``)."""
    if not program.mentions(_LAUNCHER) or not program.mentions(_RUNS):
        return False
    return any(
        isinstance(text.value, str)
        and not isinstance(module.syntax.parents.get(text), ast.Expr)
        and _LAUNCHER.search(text.value)
        for module in program.modules
        for text in module.syntax.of(ast.Constant)
    )
