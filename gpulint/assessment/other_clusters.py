"""Launchers that were copied from another organisation, as the names of its partitions and folders show: the GPUs that
they request are those of the original authors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpulint import regex

if TYPE_CHECKING:
    from gpulint.launch.job import Job

_OF_OTHERS = regex.compile(r"\b(?:learnfair|learnlab|devlab)\b|/private/home/|/large_experiments/")
"""Partitions and folders of clusters at Meta, whose launchers many projects copy."""


def is_of_other_cluster(job: Job) -> bool:
    """Return whether a job names a partition or a folder of a cluster that only the original authors have."""
    return job.document.matches(_OF_OTHERS)
