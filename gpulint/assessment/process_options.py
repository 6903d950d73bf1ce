"""Programs that run as one process, as their commands say, or unless an option asks for more."""

from __future__ import annotations

import ast
import re
from itertools import islice
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.assessment.kept_folders import own_jobs
from gpulint.assessment.shell_defaults import MAX_BYTES, texts
from gpulint.launch.job_index import JobIndex
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.programs.rejected_commands import is_rejected
from gpulint.query import query
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import source_text

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.launch.job import Job, JobLaunch, Launched
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

_SPAWNS = ("spawn", "start_processes")
_STARTS = (
    *_SPAWNS,
    "Process",
    "notebook_launcher",
    "elastic_launch",
    "launch_agent",
    "TorchTrainer",
    "TorchDistributor",
    "AutoExecutor",
    "SlurmExecutor",
)
"""Functions and classes that start several processes of a program, or submit jobs that do."""
_LAUNCHERS = regex.compile(
    r"(?:torchrun|torch\.distributed\.(?:launch|run)\b)"
    r"(?![^\n]{0,300}--nproc[-_]per[-_]node[= ]1\b(?![^\n]{0,300}--nnodes))"
    r"|accelerate launch|\b(deepspeed|mpirun|mpiexec|horovodrun|srun)\b"
)
"""Commands that start several processes."""
_SPAWN = frozenset({"torch.multiprocessing.spawn", "torch.multiprocessing.spawn.spawn"})
_OWN_PORT = regex.compile(r"MASTER_PORT[\"']\]?\s*[=,:]|tcp://")
_FROM_LAUNCHER = regex.compile(r"LOCAL_RANK|TORCHELASTIC|[\"']RANK[\"']|local[-_]rank")
"""What a program reads that a launcher may start."""
_SEVERAL = regex.compile(
    r"__main__|\w*(?:gpu|device|world_?size|nprocs|num_proc)\w*(?:\(\))? ?(?:> ?1|>= ?2)\b", re.IGNORECASE
)
"""Tests for several GPUs."""
MAX_USERS = 20
"""Most programs whose commands are read."""


def starts_one_process(subject: Subject) -> bool:
    """Return whether the module starts processes itself, each time only where an option that is 1 by default is larger
    (``if args.np > 1: mp.spawn(...)``), and no command of the tree starts it as several."""
    module = subject.module
    if module is None:
        return False
    spawns = [call for name in _SPAWNS for call in module.calls_by_name.get(name, ())]
    starts = subject.project.fact(JobIndex).launches_of(module.path)
    return (
        bool(spawns)
        and all(_is_off(subject, module, call) for call in spawns)
        and not any(item.start.launch.distributed for item in starts)
    )


def is_started_alone(subject: Subject) -> bool:
    """Return whether commands of the tree start the program, or those that import the module, as one process each, and
    no program, script or note starts more."""
    module, project = subject.module, subject.project
    if module is None:
        return False
    paths = [module.path, *islice(project.fact(GpuPrograms).users(module.path), MAX_USERS)]
    starts = [item for path in paths for item in project.fact(JobIndex).launches_of(path)]
    if not starts or any(map(_starts_several, starts)):
        return False
    modules = [found for path in paths if (found := project.module_at(path)) is not None]
    return not _names_launcher(project) and not any(map(_forks, modules))


def shows_no_group(subject: Subject) -> bool:
    """Return whether nothing of the tree starts the module, or a program that imports it, as several processes: no
    command, no script or note, no program and no text in one (``Usage: torchrun --nproc_per_node=4 train.py``)."""
    module, project = subject.module, subject.project
    if module is None:
        return False
    paths = [module.path, *islice(project.fact(GpuPrograms).users(module.path), MAX_USERS)]
    starts = [item for path in paths for item in project.fact(JobIndex).launches_of(path)]
    if any(map(_starts_several, starts)) or _names_launcher(project):
        return False
    modules = [found for path in paths if (found := project.module_at(path)) is not None]
    if any(_forks(one) or _names_launcher_in_text(one) for one in modules):
        return False
    return bool(starts) or not any(map(_joins_group, modules))


def starts_twice(subject: Subject) -> bool:
    """Return whether each job around a finding starts several processes of a program that spawns one for each GPU
    itself, all of which meet at the same port: the second one cannot open it, and the job ends."""
    jobs = own_jobs(subject)
    starts = [[start for start in job.launches if start.program is not None] for job in jobs]
    return bool(starts) and all(own and all(_collides(subject.project, one) for one in own) for own in starts)


def is_rejected_by_program(subject: Subject) -> bool:
    """Return whether each job around a finding only runs programs of the tree whose parsers reject their commands, so
    that it ends within seconds."""
    jobs = own_jobs(subject) if subject.is_launcher else []
    return bool(jobs) and all(job.complete and _all_rejected(subject.project, job) for job in jobs)


def _all_rejected(project: Project, job: Job) -> bool:
    starts = [start for start in job.launches if not start.launch.uncalled]
    return bool(starts) and all(is_rejected(project, start) for start in starts)


def _collides(project: Project, start: JobLaunch) -> bool:
    launch, count = start.launch, start.launch.processes_per_node
    several = count is not None and (count.all_gpus or (count.value or 0) > 1)
    module = project.module_at(start.program) if start.program is not None and several else None
    if module is None or launch.launcher != "torchrun" or not _opens_own_port(module):
        return False
    return any(
        all(holds and _SEVERAL.search(source_text(module, test)) for test, holds in conditions(module, call))
        for call in project.fact(Resolver).calls_to(module, _SPAWN)
    )


def _opens_own_port(module: ModuleIndex) -> bool:
    """Return whether a module says itself where its processes meet, and reads nothing of a launcher."""
    text = module.syntax.source.text
    return regex.occurs(_OWN_PORT, text) and not regex.occurs(_FROM_LAUNCHER, text)


def _starts_several(launched: Launched) -> bool:
    """Return whether a launch may start several processes: ``--nproc_per_node=1`` on one node starts one."""
    launch = launched.start.launch
    count = launch.processes_per_node
    one = count is not None and count.value == 1 and not count.all_gpus
    return launch.distributed and not (one and launch.launcher == "torchrun" and "nnodes" not in launch.options)


def _forks(module: ModuleIndex) -> bool:
    return any(name in module.calls_by_name for name in _STARTS)


def _joins_group(module: ModuleIndex) -> bool:
    """Return whether a module joins a group of processes without a test, which fails unless a launcher starts it."""
    calls = module.calls_by_name.get("init_process_group", ())
    return any(all("__main__" in source_text(module, test) for test, _ in conditions(module, call)) for call in calls)


def _names_launcher_in_text(module: ModuleIndex) -> bool:
    """Return whether a string of a module names such a command: a docstring, or what ``subprocess`` runs."""
    if not regex.occurs(_LAUNCHERS, module.syntax.source.text):
        return False
    values = (part.value for part in module.syntax.nodes if isinstance(part, ast.Constant))
    return any(isinstance(value, str) and regex.occurs(_LAUNCHERS, value) for value in values)


@query
def _names_launcher(project: Project) -> bool:
    """Return whether a script or note names a command that starts several processes."""
    found = (project.data(path)[:MAX_BYTES].decode("utf-8", "replace") for path in texts(project))
    return any(regex.occurs(_LAUNCHERS, text) for text in found)


def _is_off(subject: Subject, module: ModuleIndex, spawn: ast.Call) -> bool:
    constants = subject.project.fact(Constants)
    for test, holds in conditions(module, spawn):
        match test:
            case ast.Compare(left=count, ops=[ast.Gt() | ast.NotEq()], comparators=[ast.Constant(value=1)]) if holds:
                if constants.of(module, count).every(lambda value: value == 1):
                    return True
    return False
