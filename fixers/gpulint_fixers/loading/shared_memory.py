"""Containers with little shared memory, through which workers hand over their batches."""

from __future__ import annotations

import re
from pathlib import Path

from gpulint import regex
from gpulint.launch.job_index import JobIndex
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.project import Project
from gpulint.query import query

_POD = regex.compile(r"^[ \t-]*containers:[ \t]*$", re.MULTILINE)
_MORE = regex.compile(r"shm|hostIPC|\bipc:|medium:\s*['\"]?Memory|\{\{")
"""What gives a container more shared memory, or comes from a template that may."""


@query
def with_little_memory(project: Project, program: Path) -> str:
    """Return the file of a container that runs a program, or one that imports it, with the 64 MB of shared memory that
    containers have by default; empty if there is none.

    https://kubernetes.io/docs/concepts/storage/volumes/#emptydir
    """
    index = project.fact(JobIndex)
    launches = index.launches_of(program) or [
        launch for user in project.fact(GpuPrograms).users(program) for launch in index.launches_of(user)
    ]
    for launch in launches:
        text = launch.job.document.source.text
        system = launch.job.task.system
        starts = system == "compose" or (system == "kubernetes" and _POD.search(text))
        if starts and not _MORE.search(text):
            return launch.job.document.path.name
    return ""
