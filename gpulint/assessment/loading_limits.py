"""Loaders whose workers take so long that a step waits for them: a copy is little beside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpulint.assessment.amounts import loader_batch, sample_seconds
from gpulint.assessment.constants import figure, kind, middle
from gpulint.query import query
from gpulint.training.loader_calls import loader_argument
from gpulint.values.constants import Constants
from gpulint.workload.item_work import ItemWorks

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader

USUAL_WORKERS = 8
"""As many as programs usually set."""


def loads_longer(subject: Subject) -> bool:
    """Return whether the workers of a loader take so long for a batch that its copy is a small share of that: however
    fast the GPU is, no step is shorter."""
    loader, cost = subject.cost.loader if subject.cost is not None else None, subject.cost
    if loader is None or cost is None:
        return False
    row, batch = kind(cost.kind), loader_batch(subject.project, loader)
    size = batch.bytes if cost.amount is None else cost.amount * batch.size
    low, high = figure("bandwidth", row.bandwidth)
    copied = middle((size / high, size / low))
    work = subject.project.fact(ItemWorks).of(loader)
    loaded = middle(sample_seconds(work, batch)) * batch.size / _workers(subject.project, loader) if work.kinds else 0
    return bool(copied < loaded * figure("levels", "medium_share"))


@query
def _workers(project: Project, loader: Loader) -> int:
    """Return how many workers a loader has at most; the usual number where that is unknown."""
    known = [
        project.fact(Constants).of(ref.module, ref.node, ref.path)
        for ref in loader_argument(project, loader, "num_workers").refs
    ]
    counts = [value for one in known for value in one.constants if isinstance(value, int) and value > 0]
    return max(counts) if counts and all(one.complete for one in known) else USUAL_WORKERS
