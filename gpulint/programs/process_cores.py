"""How many cores the jobs of a program give each of its processes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.launch.gpu_counts import processes
from gpulint.launch.job_index import JobIndex
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.query import query

if TYPE_CHECKING:
    from gpulint.launch.job import Job, Launched
    from gpulint.project import Project

_ONE_TASK = regex.compile(r"#SBATCH[^\n]{0,300}?\s(--ntasks[= ]|-n ?)1\b")
_CORES = regex.compile(r"cpus-per|cpus_per|exclusive|mincpus|\s-c[ \d=]|\s-B[ \d]|ntasks-per-core")


@query
def cores_per_process(project: Project, program: Path) -> float | None:
    """Return the fewest cores that a job gives each process of a program, or of those that import a module which no
    job starts, at least one: 1.5 where four processes share six. None if nothing starts it, or one of the jobs that
    request something does not say how many."""
    index = project.fact(JobIndex)
    launches = index.launches_of(program) or [
        launch for user in project.fact(GpuPrograms).users(program) for launch in index.launches_of(user)
    ]
    stated = [launch for launch in launches if launch.job.cpus is not None or launch.job.gpus is not None]
    shares = [_share(project, launch) for launch in stated or launches]
    known = [share for share in shares if share is not None]
    return max(1.0, min(known)) if known and len(known) == len(shares) else None


def _share(project: Project, launch: Launched) -> float | None:
    """Cores of the job for each of the processes that it starts on a node; None if one of both is unknown."""
    job = launch.job
    cores = 1 if job.cpus is None and _has_one_core_per_task(job) else job.cpus.value if job.cpus is not None else None
    if cores is None:
        return None
    tasks = 1
    if job.task.system == "slurm" and job.tasks_per_node is not None:  # its cores are those of one task
        tasks = job.tasks_per_node.value or 1
    count = _processes(project, launch)
    return None if count is None else cores * tasks / count


def _has_one_core_per_task(job: Job) -> bool:
    """Return whether a job of Slurm says how many tasks a node has, and not how many cores: one for each, by default.

    https://slurm.schedmd.com/sbatch.html#OPT_cpus-per-task
    """
    text = job.document.source.text
    tasks = job.tasks_per_node.value if job.tasks_per_node is not None else None
    known = tasks is not None or _ONE_TASK.search(text) is not None
    return job.task.system == "slurm" and _CORES.search(text) is None and known


def _processes(project: Project, launch: Launched) -> int | None:
    """Processes that run on one node."""
    job, start = launch.job, launch.start
    counted = processes(project, job, start)
    if counted is not None:
        return max(1, counted[0])
    own = start.launch.processes_per_node
    stated = job.gpus if own is not None and own.all_gpus else job.tasks_per_node or job.gpus
    return None if stated is None else stated.value
