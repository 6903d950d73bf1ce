"""Programs that all known jobs run as one process on one GPU: nothing is exchanged between processes there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.launch.gpu_counts import processes, visible
from gpulint.launch.job_index import JobIndex
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.query import query

if TYPE_CHECKING:
    from gpulint.launch.job import Launched
    from gpulint.project import Project


@query
def only_on_one_gpu(project: Project, file: Path) -> bool:
    """Return whether jobs start a program, or programs that import the module, and each as one process on one GPU."""
    index = project.fact(JobIndex)
    starts = list(index.launches_of(file))
    for user in project.fact(GpuPrograms).users(file):
        starts += index.launches_of(user)
    return bool(starts) and all(_is_single(project, launched) for launched in starts)


def _is_single(project: Project, launched: Launched) -> bool:
    """Return whether a job requests one GPU on one node for what it starts there, once."""
    job, start = launched.job, launched.start
    gpus = visible(job, start, project.config.gpus_per_node)
    nodes = job.nodes
    if gpus is None or gpus.value != 1 or (nodes is not None and nodes.value != 1):
        return False
    counted = processes(project, job, start)
    return counted is not None and counted[0] == 1
