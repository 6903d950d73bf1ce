"""How many worker processes a loader should have."""

from __future__ import annotations

from pathlib import Path

from gpulint.facts.gpus import processes
from gpulint.jobs import Launched
from gpulint.project import Project

MOST = 16
"""More workers than this seldom help one GPU, whatever the node has."""
ANYWHERE = 'len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1'
"""Cores that the process may use; only Linux says which."""


def worker_count(project: Project, program: Path) -> tuple[str, str]:
    """(expression for the number of workers, why that many); the expression needs ``os`` unless it is a number."""
    launches = project.launched(program)
    shares = [_share(project, launch) for launch in launches]
    known = [share for share in shares if share is not None]
    if known and len(known) == len(shares):
        cores = max(1, min(*known, MOST))
        return str(cores), f"the launcher gives each process {cores} cores" if cores > 1 else "one core per process"
    siblings = max((_processes(project, launch) or 1 for launch in launches), default=1)
    if siblings > 1:
        return f"max(1, min(8, ({ANYWHERE}) // {siblings}))", f"{siblings} processes share the node's cores"
    return f"min(8, {ANYWHERE})", "measure how many help"


def _share(project: Project, launch: Launched) -> int | None:
    """Cores of the job for each of the processes that it starts on a node; None if one of both is unknown."""
    job = launch.job
    if job.cpus is None or job.cpus.value is None:
        return None
    tasks = 1
    if job.task.system == "slurm" and job.tasks_per_node is not None:  # its cores are those of one task
        tasks = job.tasks_per_node.value or 1
    count = _processes(project, launch)
    return None if count is None else job.cpus.value * tasks // count


def _processes(project: Project, launch: Launched) -> int | None:
    """Processes that run on one node."""
    job, start = launch.job, launch.start
    counted = processes(project, job, start)
    if counted is not None:
        return max(1, counted[0])
    own = start.launch.processes_per_node
    stated = job.gpus if own is not None and own.all_gpus else job.tasks_per_node or job.gpus
    return None if stated is None else stated.value
