"""Jobs that hold GPUs: which run a file, and what they consist of."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.launch.gpu_counts import processes, visible
from gpulint.launch.job_index import JobIndex
from gpulint.programs.gpu_jobs import GpuJobs
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.programs.multi_gpu_use import MultiGpuUse
from gpulint.query import query
from gpulint.report import JobSummary
from gpulint.rule import Kind

if TYPE_CHECKING:
    from gpulint.finding import Place
    from gpulint.launch.job import Job
    from gpulint.project import Project

MANY_GPUS = 4
"""GPUs from which on a session is more than one person works with (assumed)."""
MAX_USERS = 20
"""Most modules that are asked whether a job starts them and so runs a module that they import."""
_CONFIGURATIONS = (".yaml", ".yml", ".json", ".toml", ".ini", ".cfg")


@query
def jobs_running(project: Project, path: Path) -> tuple[Job, ...]:
    """The jobs of the tree that run a file: those of a launcher, of a program, or of the programs that import it."""
    index = project.fact(JobIndex)
    if project.kind(path) not in (Kind.PYTHON, Kind.NOTEBOOK):
        return index.jobs_with(path) or index.jobs_in(path)
    if not index.jobs():
        return ()
    started = [item.job for item in index.launches_of(path) if not item.start.launch.uncalled]
    if not started:
        users = islice(project.fact(GpuPrograms).users(path), MAX_USERS)
        started = [
            item.job
            for user in users
            for item in index.launches_of(user)
            if item.start.program == user and not item.start.launch.uncalled
        ]
    # What submits jobs runs in none itself; its findings are about them.
    return tuple(dict.fromkeys(started or index.jobs_in(path)))


@query
def most_gpus(project: Project, path: Path, one_node: bool = False) -> int | None:
    """Most GPUs of a job that runs a file, or that it has on one node; None if none says how many it holds."""
    known = [(job, gpus_of(job)) for job in jobs_running(project, path)]
    of_node = {job: job.gpus.value for job, _ in known if job.gpus is not None}
    counts = [of_node[job] if one_node else count for job, count in known if count is not None and count > 0]
    return max((count for count in counts if count is not None), default=None)


def gpus_of(job: Job) -> int | None:
    """GPUs of all nodes of a job; None if it does not say."""
    if job.gpus is None or job.gpus.value is None or job.task.resources.fractional:
        return None
    nodes = 1
    for count in (job.nodes, job.task.replicas):
        if count is not None and count.value is None:
            return None
        nodes = max(nodes, count.value or 1) if count is not None else nodes
    return job.gpus.value * nodes


def summaries(project: Project, path: Path) -> Iterator[JobSummary]:
    """The jobs of a launcher that hold GPUs."""
    for job, evidence in project.fact(GpuJobs).held_in(path):
        gpus = gpus_of(job) if job.gpus is not None else _started_gpus(project, job)
        yield JobSummary(_place(job, evidence), _name(job), gpus, job.programs, _files(project, job))


def _started_gpus(project: Project, job: Job) -> int | None:
    """The GPUs that the launches of a job which requests none use, on its one node: those that are visible, else one
    for each process that a distributed launcher starts (``torchrun --nproc-per-node 4``)."""
    if any(count is not None and count.value != 1 for count in (job.nodes, job.task.replicas)):
        return None
    counts = list[int]()
    for start in job.launches:
        if any(level.nodes is not None and level.nodes.value != 1 for level in start.launch.levels):
            return None
        if (seen := visible(job, start)) is not None:
            counts.append(seen.value or 0)
        elif start.launch.distributed and (started := processes(project, job, start)) is not None:
            counts.append(started[0])
    return max(counts, default=0) or None


def _place(job: Job, evidence: Place) -> Place:
    return job.gpus.place if job.gpus is not None else evidence


def _name(job: Job) -> str:
    return job.task.name or job.document.path.name


def _files(project: Project, job: Job) -> tuple[Path, ...]:
    """The launcher, the scripts it calls, the programs with what they import, and the configurations it names."""
    found = [job.document.path, *(script.path for script in job.scripts)]
    if job.image is not None:
        found.append(job.image.path)
    for program in job.programs:
        found += [program, *project.fact(MultiGpuUse).of(program).paths]
    for start in job.launches:
        if start.config is not None:
            found.append(start.config)
        folders = dict.fromkeys((start.document.path.parent, *((start.program.parent,) if start.program else ())))
        for word in start.launch.args:
            found += _named(project, [*folders], (word.value or "").rpartition("=")[2])
    inside = project.root
    return tuple(path for path in dict.fromkeys(found) if path.is_relative_to(inside))


def _named(project: Project, folders: list[Path], written: str) -> list[Path]:
    """The configuration file that an argument names, beside the launcher or program or below a folder above it."""
    if not written.endswith(_CONFIGURATIONS) or written.startswith(("/", "~")) or "://" in written:
        return []
    for folder in folders:
        while folder == project.root or folder.is_relative_to(project.root):
            path = Path(os.path.normpath(folder / written))
            if path.is_relative_to(project.root) and project.is_file(path):
                return [path]
            folder = folder.parent
    return []
