"""Data sets that make a tensor of each row by itself, whose batches are put together row by row."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_calls import TORCH_LOADER, Loader, loader_argument
from gpulint.values.constants import Constants
from gpulint.workload.dataset_work import parts_of, works_per_sample

if TYPE_CHECKING:
    from gpulint.project import Project

MANY_ROWS = 1024
"""Samples of a batch from which on even picking them one by one takes as long as a part of a step."""
_CONVERTS = frozenset(
    "torch.tensor torch.from_numpy torch.as_tensor torch.Tensor torch.FloatTensor torch.LongTensor".split()
)


def takes_time(project: Project, loader: Loader) -> bool:
    """Return whether a loader does something for each sample that takes time, or for very many samples."""
    return works_per_sample(project, loader) or picks_many_rows(project, loader)


def picks_many_rows(project: Project, loader: Loader) -> bool:
    """Return whether the batches of a loader have so many rows, each of which becomes a tensor, that slices of the data
    would take a fraction of the time."""
    known = [
        project.fact(Constants).of(ref.module, ref.node, ref.path)
        for ref in loader_argument(project, loader, "batch_size").refs
    ]
    sizes = [value for one in known for value in one.constants]
    many = all(isinstance(value, int) and value >= MANY_ROWS for value in sizes)
    return bool(sizes) and many and makes_each_row(project, loader)


@query
def makes_each_row(project: Project, loader: Loader) -> bool:
    """Return whether a data set of the tree makes a tensor for each sample that it looks up (``torch.tensor(
    self.data[index])``), which PyTorch then puts together."""
    if loader.name != TORCH_LOADER or not loader_argument(project, loader, "batch_sampler").is_absent:
        return False
    resolver = project.fact(Resolver)
    getters = [
        resolver.method(where, owner, "__getitem__")
        for source in parts_of(project, loader)
        if isinstance(source.node, ast.expr)
        for where, owner in resolver.classes_of(source.module, source.node)
    ]
    return bool(getters) and all(
        getter is not None
        and any(
            isinstance(part, ast.Call) and resolver.call_names(getter.module, part) & _CONVERTS
            for part in walk(getter.node)
        )
        for getter in getters
    )
