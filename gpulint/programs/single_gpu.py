"""Programs that all known jobs run as one process on one GPU: nothing is exchanged between processes there."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.launch.gpu_counts import processes, visible
from gpulint.launch.job_index import JobIndex
from gpulint.programs.cpu_options import arguments_of
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.programs.multi_gpu_use import MultiGpuUse
from gpulint.query import query

if TYPE_CHECKING:
    from gpulint.launch.job import Job, JobLaunch, Launched
    from gpulint.project import Project
    from gpulint.source import Span

_ONE = regex.compile(
    r"""CUDA_VISIBLE_DEVICES=["']?(?:\$\(\(|\$\([^()]{0,200}\b(?:head|tail) -n? ?1\b"""
    r"""|\$\{?(?:SLURM_LOCALID|SLURM_ARRAY_TASK_ID|LOCAL_RANK|OMPI_COMM_WORLD_LOCAL_RANK|MPI_LOCALRANKID)\b)"""
)
"""What is one number, whichever it is: a sum, the first line, a process's number on its node."""
_BOUND = frozenset({"--gpu-bind=single:1", "--gpus-per-task=1"})
_LIGHTNING = frozenset({"pytorch_lightning", "lightning"})
_FORKS = ("spawn", "start_processes", "Process", "notebook_launcher")
"""Functions that start processes of a program."""
_OF_GPU = regex.compile(r"--?(gpu|device|cuda)([-_]?(id|idx|index|num(ber)?))?", re.IGNORECASE)
"""Options for the device of a process."""


@query
def only_on_one_gpu(project: Project, file: Path) -> bool:
    """Return whether jobs start a program, or programs that import the module, and each as one process on one GPU."""
    starts = _starts(project, file)
    return bool(starts) and all(_is_single(project, launched) for launched in starts)


@query
def only_as_one_process(project: Project, file: Path) -> bool:
    """Return whether jobs start a program, or programs that import the module, and each as one process: on one GPU, or
    with a launcher that is told to start one (``srun`` with ``--ntasks=1``), on as many GPUs as there are."""
    starts = _starts(project, file)
    if not starts or not all(_is_single(project, one) or _states_one(project, one) for one in starts):
        return False
    paths = (file, *project.fact(GpuPrograms).users(file))
    modules = [module for path in paths if (module := project.module_at(path)) is not None]
    return not any(name in module.calls_by_name for module in modules for name in _FORKS)


def _starts(project: Project, file: Path) -> list[Launched]:
    index = project.fact(JobIndex)
    starts = list(index.launches_of(file))
    for user in project.fact(GpuPrograms).users(file):
        starts += index.launches_of(user)
    return starts


def _states_one(project: Project, launched: Launched) -> bool:
    """Return whether a launcher of several processes is told to start one, on one node."""
    job, start = launched.job, launched.start
    nodes = (job.nodes, job.task.replicas, start.launch.nodes)
    if not start.launch.distributed or any(one is not None and one.value != 1 for one in nodes):
        return False
    counted = processes(project, job, start)
    return counted is not None and counted[0] == 1 and counted[1] is not None


def _is_single(project: Project, launched: Launched) -> bool:
    """Return whether a job requests one GPU on one node for what it starts there, once, or starts it beside others with
    GPUs of its own (``CUDA_VISIBLE_DEVICES=$i python train.py &``)."""
    job, start = launched.job, launched.start
    gpus = visible(job, start, project.config.gpus_per_node)
    if _has_one_of_its_own(start):
        return True
    if start.launch.command.background and "CUDA_VISIBLE_DEVICES" in start.env and gpus is not None:
        return gpus.value in (None, 1)
    nodes = job.nodes
    if gpus is None or gpus.value != 1 or (nodes is not None and nodes.value != 1):
        return False
    counted = processes(project, job, start)
    return counted is not None and counted[0] == 1


def _has_one_of_its_own(start: JobLaunch) -> bool:
    """Return whether each process of a launch sees a GPU of its own, or each round of a loop starts it beside others
    with the number of one (``python train.py --gpu $i &``)."""
    setting = start.env.get("CUDA_VISIBLE_DEVICES")
    if (
        setting is not None
        and setting.value is None
        and _ONE.search(start.document.source.line(setting.place.span.line))
    ):
        return True
    command = start.launch.command
    if any(word.text in _BOUND for word in command.argv):
        return True
    args = start.launch.args
    return (
        command.background
        and command.in_loop
        and any(
            _OF_GPU.fullmatch(flag.text) and not word.known and "," not in word.text for flag, word in pairwise(args)
        )
    )


def forms_no_group(project: Project, path: Path, span: Span) -> bool:
    """Return whether nothing that gets the environment variable of a place forms a group of processes: each job that
    gets it holds one GPU, starts one process each time, or starts only programs that are told to be one process or have
    no sign of parallel work."""
    if _starts_one(project, path):
        return True
    index = project.fact(JobIndex)
    if jobs := index.jobs_setting(path, span) or index.jobs_in(path):
        return all(_holds_one(job) or _is_serial(project, job) for job in jobs)
    return only_on_one_gpu(project, path) or _has_no_sign(project, path)


def shows_no_group(project: Project, path: Path, span: Span) -> bool:
    """Return whether launchers start several processes of the programs that get the environment variable of a place,
    but none of these, with what they import, names anything that forms a group or imports a package which may."""
    index = project.fact(JobIndex)
    jobs = index.jobs_setting(path, span) or index.jobs_in(path)
    starts = [start for job in jobs for start in job.launches if start.script is None]
    return bool(starts) and all(start.program is not None and _is_alone(project, start.program) for start in starts)


def _is_alone(project: Project, program: Path) -> bool:
    return _has_no_sign(project, program) and not project.fact(MultiGpuUse).of(program).unread(all_unknown=True)


def _starts_one(project: Project, script: Path) -> bool:
    """Return whether each launcher in a script says that it starts one process (``torchrun --nproc_per_node=1``)."""
    starts = [(job, start) for job in project.fact(JobIndex).jobs_in(script) for start in job.launches]
    return bool(starts) and all(
        start.launch.trains
        and (start.launch.nodes is None or start.launch.nodes.value == 1)
        and (counted := processes(project, job, start)) is not None
        and counted[0] == 1
        for job, start in starts
    )


def _holds_one(job: Job) -> bool:
    counts = (job.nodes, job.task.replicas)
    return job.gpus is not None and job.gpus.value == 1 and all(one is None or one.value == 1 for one in counts)


def _is_serial(project: Project, job: Job) -> bool:
    starts = [start for start in job.launches if start.script is None]
    return bool(starts) and all(
        start.program is not None
        and (
            _asks_for_one(project, start.program, start)
            or (not start.launch.distributed and _has_no_sign(project, start.program))
        )
        for start in starts
    )


def _asks_for_one(project: Project, program: Path, start: JobLaunch) -> bool:
    """Return whether a program of Lightning, which starts its own processes, is told to start one (``--devices 1``,
    ``trainer.devices=1``) on one node."""
    heads = {name.partition(".")[0] for name in project.imports(program)}
    if start.launch.trains or heads.isdisjoint(_LIGHTNING):
        return False
    given = {name.rpartition(".")[2]: value for name, value in arguments_of(start)}
    return given.get("devices") == "1" and given.get("num-nodes", "1") == "1"


@query
def _has_no_sign(project: Project, path: Path) -> bool:
    """Return whether a program, with what it imports, names nothing that spreads its work."""
    if project.module_at(path) is None or next(project.fact(GpuPrograms).users(path), None) is not None:
        return False
    program = project.fact(MultiGpuUse).of(path)
    return not program.parallel and not program.loads_by_name
