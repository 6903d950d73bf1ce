"""Jobs on machines whose disks outlive them: what one run installs there, the next one finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.libraries.schedulers import batch_systems

if TYPE_CHECKING:
    from gpulint.documents.base import Document
    from gpulint.launch.job import Job
    from gpulint.libraries import Models

_IMAGES = regex.compile(r"--container-image|\b(?:singularity|apptainer|enroot|shifter|podman|docker|charliecloud)\b")
_FRESH = regex.compile(
    r"\$\{?(?:SLURM_TMPDIR|TMPDIR|PBS_JOBFS|LOCAL_SCRATCH)\b|[= '\"]/(?:tmp|dev/shm)/"
    r"|\b(?:conda|mamba)\s+(?:env\s+)?create\b|\brm\s+-rf?\s+\S*env\b"
)
"""Environments that are made again in every run."""
_OWN_MACHINE = "self-hosted"
"""The label of runners that are no machines of the hosting service."""


def runs_without_image(models: Models, job: Job) -> bool:
    """Return whether a batch job runs in what its cluster has installed, as far as its scripts say."""
    if job.task.system not in batch_systems(models) or job.task.image is not None:
        return False
    return not any(document.matches(_IMAGES) for document in _documents(job))


def keeps_environment(models: Models, job: Job) -> bool:
    """Return whether packages that a job installs are still there in its next run."""
    if job.task.system == "github":
        return job.task.image is None and job.gpus is not None and _OWN_MACHINE in job.gpus.text
    return runs_without_image(models, job) and not any(document.matches(_FRESH) for document in _documents(job))


def _documents(job: Job) -> tuple[Document, ...]:
    return tuple(dict.fromkeys((job.document, *job.scripts)))
