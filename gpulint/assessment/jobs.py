"""Jobs that hold GPUs: which run a file, and what they consist of."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.assessment.ended_programs import ends_at_call
from gpulint.assessment.evaluation_commands import evaluate_only
from gpulint.assessment.other_clusters import is_of_other_cluster
from gpulint.launch.gpu_counts import gpus_of, processes, visible
from gpulint.launch.job_index import JobIndex
from gpulint.launch.replaced_defaults import may_be_replaced
from gpulint.programs.gpu_jobs import GpuJobs
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.programs.multi_gpu_use import MultiGpuUse
from gpulint.programs.rejected_commands import is_rejected
from gpulint.query import query
from gpulint.report import JobSummary
from gpulint.rule import Kind

if TYPE_CHECKING:
    from gpulint.finding import Place
    from gpulint.launch.job import Job, JobLaunch, Launched
    from gpulint.project import Project
    from gpulint.source import Span

MANY_GPUS = 4
"""GPUs from which on a session is more than one person works with (assumed)."""
MAX_USERS = 20
"""Most modules that are asked whether a job starts them and so runs a module that they import."""
_HOSTS = frozenset({"H", "host", "hosts", "hostfile", "machinefile"})
"""Options of launchers that name nodes, or a file that lists them."""
_CONFIGURATIONS = (".yaml", ".yml", ".json", ".toml", ".ini", ".cfg")


@query
def jobs_running(project: Project, path: Path) -> tuple[Job, ...]:
    """The jobs of the tree that run a file: those of a launcher, of a program, or of the programs that import it."""
    index = project.fact(JobIndex)
    if project.kind(path) not in (Kind.PYTHON, Kind.NOTEBOOK):
        return index.jobs_with(path) or index.jobs_in(path)
    if not index.jobs():
        return ()
    started = [item.job for item in index.launches_of(path) if _starts(project, item, path)]
    if not started:
        users = islice(project.fact(GpuPrograms).users(path), MAX_USERS)
        started = [
            item.job
            for user in users
            for item in index.launches_of(user)
            if item.start.program == user and _starts(project, item, path)
        ]
    # What submits jobs runs in none itself; its findings are about them.
    return tuple(dict.fromkeys(started or index.jobs_in(path)))


def _starts(project: Project, launched: Launched, path: Path) -> bool:
    """Return whether the program that a job starts takes its command, and may come to another file rather than end at a
    call before."""
    start = launched.start
    if start.launch.uncalled or is_rejected(project, start):
        return False
    return start.program is None or start.program == path or not ends_at_call(project, start.program)


@query
def most_gpus(
    project: Project, path: Path, one_node: bool = False, named: frozenset[tuple[Path, Span]] = frozenset()
) -> int | None:
    """Return the most GPUs of a job that runs a file, or that it has on one node; None if none says how many it holds.
    Where requests of such jobs are among the places ``named``, it is about these jobs. Those of another organisation's
    cluster do not count."""
    jobs = jobs_running(project, path)
    jobs = tuple(job for job in jobs if not is_of_other_cluster(job))
    own = [job for job in jobs if job.gpus is not None and (job.gpus.place.path, job.gpus.place.span) in named]
    known = [(job, gpus_of(job)) for job in own or jobs]
    of_node = {job: job.gpus.value for job, _ in known if job.gpus is not None}
    counts = [of_node[job] if one_node else count for job, count in known if count is not None and count > 0]
    return max((count for count in counts if count is not None), default=None)


def summaries(project: Project, path: Path) -> Iterator[JobSummary]:
    """Yield the jobs of a launcher that hold GPUs, other than on another organisation's cluster. What runs before the
    containers of a pod, while it has its GPUs, is part of the job of the container that requests them."""
    held = [one for one in project.fact(GpuJobs).held_in(path) if not is_of_other_cluster(one[0])]
    requests = {_place(job, evidence) for job, evidence in held if job.task.role != "init"}
    before: dict[Place, list[Job]] = defaultdict(list)
    for job, evidence in held:
        if job.task.role == "init" and _place(job, evidence) in requests:
            before[_place(job, evidence)].append(job)
    for job, evidence in held:
        place = _place(job, evidence)
        if job in before.get(place, ()):
            continue
        gpus = gpus_of(job) if job.gpus is not None else _started_gpus(project, job)
        parts = [*before.get(place, ()), job]
        programs = dict.fromkeys(program for part in parts for program in part.programs)
        files = dict.fromkeys(file for part in reversed(parts) for file in _files(project, part))
        evaluates = evaluate_only(start for part in parts for start in part.launches)
        yield JobSummary(_start(parts) or place, _name(job), gpus, (*programs,), (*files,), evaluates)


def _start(parts: Sequence[Job]) -> Place | None:
    """Return where a notebook, which requests its GPU as a whole, starts the first program of its job; None for other
    launchers."""
    starts = [
        start.place
        for job in parts
        for start in job.launches
        if job.document.kind is Kind.NOTEBOOK and start.document is job.document and start.program is not None
    ]
    return starts[0] if starts else None


def _started_gpus(project: Project, job: Job) -> int | None:
    """The GPUs that the launches of a job which requests none use on all its nodes: those that are visible, else one
    for each process that a distributed launcher starts (``torchrun --nnodes 2 --nproc-per-node 4``)."""
    counts = list[int]()
    for start in job.launches:
        if (nodes := _nodes(project, job, start)) is None:
            return None
        if (seen := visible(job, start)) is not None:
            counts.append(nodes * (seen.value or 0))
        elif start.launch.distributed and (started := processes(project, job, start)) is not None:
            counts.append(nodes * started[0])
    return max(counts, default=0) or None


def _nodes(project: Project, job: Job, start: JobLaunch) -> int | None:
    """Return on how many nodes a launch runs; None if that is unknown."""
    values = [count.value for count in (job.nodes, job.task.replicas) if count is not None]
    for level in start.launch.levels:
        if not _HOSTS.isdisjoint(level.options):
            return None
        if (count := level.nodes) is not None:
            varies = ":" in count.text or (count.from_default and may_be_replaced(project, job, start, count.span))
            values.append(None if varies else count.value)
    config = getattr(project.document(start.config), "accelerate", None) if start.config is not None else None
    if config is not None and config.num_machines is not None:
        values.append(config.num_machines.value)
    known = [value for value in values if value is not None]
    return max(known, default=1) if len(known) == len(values) else None


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
        found += [program, *(() if ends_at_call(project, program) else project.fact(MultiGpuUse).of(program).paths)]
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
