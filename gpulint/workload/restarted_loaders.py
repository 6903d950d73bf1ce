"""Loaders that each round of a loop starts anew for a few batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpulint.placement.batch_flow import BatchFlow
from gpulint.query import query
from gpulint.training.bounded_loops import is_restarted

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader


@query
def is_started_anew(project: Project, loader: Loader) -> bool:
    """Return whether each round of a loop starts the loader again, and leaves it after some batches: workers would be
    restarted as often, and what they prefetched thrown away."""
    reads = project.fact(BatchFlow).of_loader(loader.module, loader.node)
    return bool(reads) and all(is_restarted(project, read.where) for read in reads)
