"""Starts of programs that keep them on the CPU: hidden GPUs, platforms of JAX, accelerate's ``--cpu``, and options of
the program in jobs without GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.launch.job_index import JobIndex
from gpulint.programs.cpu_options import told_to_use_cpu
from gpulint.programs.cpu_workers import hides_gpus
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.query import query
from gpulint.workspace.module_index import ModuleIndex

if TYPE_CHECKING:
    from gpulint.launch.job import Job, JobLaunch
    from gpulint.project import Project

MAX_USERS = 20
"""Most importing modules whose starts are looked at."""
_NONE = frozenset({"", "-1", "none", "void", "nodevfiles"})
_HIDES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
_PLATFORMS = ("JAX_PLATFORMS", "JAX_PLATFORM_NAME")
_ACCELERATE = "ACCELERATE_USE_CPU"
_USES_CPU = regex.compile(rb"^[ \t]*[\"']?use_cpu[\"']?[ \t]*:[ \t]*[\"']?true\b", re.IGNORECASE | re.MULTILINE)
_SETS_PLATFORM = regex.compile(
    rb"""^(?:os\.)?environ(?:\[["']JAX_PLATFORM(?:S|_NAME)["']\]\s*=|\.setdefault\(["']JAX_PLATFORM(?:S|_NAME)["'],)\s*["']cpu["']"""
    rb"""|^(?:jax\.)?config\.update\(\s*["']jax_platform(?:s|_name)["'],\s*["']cpu["']""",
    re.MULTILINE,
)
_JAX = frozenset({"jax", "flax", "optax", "equinox", "haiku"})
_OTHERS = frozenset({"torch", "tensorflow", "cupy", "mxnet", "paddle"})
"""What computes on GPUs whatever platform JAX has."""


def keeps_on_cpu(project: Project, start: JobLaunch) -> bool:
    """Return whether one start of a program leaves it no GPU."""
    given = {
        name: setting.value.strip(" \"'").lower()
        for name in (*_HIDES, *_PLATFORMS, _ACCELERATE)
        if (setting := start.env.get(name)) is not None and setting.value is not None
    }
    if any(given.get(name, "0") in _NONE for name in _HIDES):
        return True
    if any(given.get(name) == "cpu" for name in _PLATFORMS) and _is_of_jax(project, start):
        return True
    return start.launch.launcher == "accelerate" and (
        "cpu" in start.launch.options
        or given.get(_ACCELERATE) in ("1", "true", "yes")
        or (start.config is not None and project.finds(start.config, _USES_CPU))
    )


def is_without_gpu(project: Project, job: Job, start: JobLaunch) -> bool:
    """Return whether one start of a program leaves it no GPU, or is told to use none in a job that has none."""
    return keeps_on_cpu(project, start) or told_to_use_cpu(job, start)


@query
def starts_nothing_on_gpu(project: Project, path: Path) -> bool:
    """Return whether a launcher that requests no GPUs starts programs, and each start leaves it none."""
    starts = [(job, one) for job in project.fact(JobIndex).jobs_in(path) for one in job.launches if one.script is None]
    return bool(starts) and all(
        (job.gpus is None or job.gpus.value == 0) and is_without_gpu(project, job, one) for job, one in starts
    )


@query
def computes_on_cpu(project: Project, module: ModuleIndex) -> bool:
    """Return whether a program hides the GPUs from a module, or is one of JAX alone that sets its platform to the
    CPU."""
    if hides_gpus(module) or project.fact(GpuPrograms).is_kept_off(module):
        return True
    text = module.syntax.source.text.encode("utf-8", "replace")
    return _SETS_PLATFORM.search(text) is not None and _is_jax_alone(project.imports(module.path))


def _is_of_jax(project: Project, start: JobLaunch) -> bool:
    return start.program is not None and _is_jax_alone(project.imports(start.program))


def _is_jax_alone(imports: Iterable[str]) -> bool:
    heads = {name.partition(".")[0] for name in imports}
    return bool(heads & _JAX) and not heads & _OTHERS


@query
def is_kept_on_cpu(project: Project, path: Path) -> bool:
    """Return whether jobs of the tree start a file, or what imports it, and each of these starts leaves it no GPU."""
    index = project.fact(JobIndex)
    if not index.jobs():
        return False
    starts = [*index.launches_of(path)]
    if not starts:
        users = islice(project.fact(GpuPrograms).users(path), MAX_USERS)
        starts = [item for user in users for item in index.launches_of(user) if item.start.program == user]
    return bool(starts) and all(is_without_gpu(project, item.job, item.start) for item in starts)
