"""Packages for the CPU that a job installs where its programs run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from gpulint import regex
from gpulint.documents.shell import Command
from gpulint.launch.job import Job, JobCommand
from gpulint.programs.multi_gpu_use import MultiGpuUse
from gpulint.project import Project

_CPU_WHEELS = regex.compile(r"download\.pytorch\.org/whl/(?:nightly/)?cpu\b")
_GPU_WHEELS = regex.compile(r"download\.pytorch\.org/whl/(?:nightly/)?(?:cu\d|rocm)")
_CPU_PACKAGE = regex.compile(r"(?:tensorflow-cpu|tensorflow_cpu|jax\[cpu\]|onnxruntime==|faiss-cpu)")
_CONTAINERS = frozenset({"apptainer", "singularity", "docker", "podman", "shifter", "enroot", "charliecloud", "ch-run"})
_CONDA = frozenset({"conda", "mamba", "micromamba"})


def cpu_builds(job: Job, project: Project) -> Iterator[tuple[JobCommand, str]]:
    """Yield the commands that install a build for the CPU into the environment of the job's programs, each with the
    word that says so."""
    commands = list(job.commands)
    for at, item in enumerate(commands):
        words = [word.text for word in item.command.argv]
        if "install" not in words[:4] or item.command.conditional or "--extra-index-url" in words:
            continue
        found = next((word for word in words if _CPU_WHEELS.search(word) or _CPU_PACKAGE.fullmatch(word)), None)
        if found is None or any(_leaves(later.command) or _replaces(later.command) for later in commands[at + 1 :]):
            continue
        if _is_elsewhere(job, words[0], project):
            continue
        yield item, found


def _leaves(command: Command) -> bool:
    """Return whether another environment is active after a command."""
    words = [word.text for word in command.argv]
    if not words:
        return False
    if command.name in ("source", "."):
        return len(words) > 1 and PurePosixPath(words[1]).name == "activate"
    return command.name in ("deactivate", "workon") or (
        command.name in _CONDA and words[1:2] in (["activate"], ["deactivate"])
    )


def _replaces(command: Command) -> bool:
    """Return whether a command installs the build for GPUs instead."""
    words = [word.text for word in command.argv]
    return "install" in words[:4] and any(map(_GPU_WHEELS.search, words))


def _is_elsewhere(job: Job, installer: str, project: Project) -> bool:
    """Return whether what a command installs into is not where programs train: another environment (``prep/bin/pip``)
    or outside of the containers."""
    programs = project.fact(MultiGpuUse)
    starts = [start for start in job.launches if start.script is None]
    training = [start for start in starts if (program := programs.started(start)) is not None and program.trains]
    started = [start.launch.command for start in training or starts]
    if started and all(not _CONTAINERS.isdisjoint(word.text for word in command.argv[:4]) for command in started):
        return True
    home = PurePosixPath(installer).parent
    return len(home.parts) > 0 and all(
        home not in (PurePosixPath(word.text).parent for word in command.argv[:4]) for command in started
    )
