"""Loaders that put no samples together: each step gets one."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_calls import Loader, loader_argument
from gpulint.workload.dataset_work import parts_of

if TYPE_CHECKING:
    from gpulint.project import Project


def draws_one(project: Project, loader: Loader) -> bool:
    """Return whether a loader takes one item after another by their indices (``DataLoader(prompts, batch_size=None)``)
    of data sets in the tree, rather than batches that a stream or a sampler makes."""
    given = loader_argument(project, loader, "batch_size").refs
    if not given or not all(isinstance(ref.node, ast.Constant) and ref.node.value is None for ref in given):
        return False
    if not all(loader_argument(project, loader, name).is_absent for name in ("sampler", "batch_sampler")):
        return False
    resolver, owners = project.fact(Resolver), []
    for source in parts_of(project, loader):
        if isinstance(source.node, ast.expr) and not isinstance(source.node, ast.Constant):  # None until it is set up
            owners.append(resolver.classes_of(source.module, source.node))
    return bool(owners) and all(
        bool(found)
        and all(
            resolver.method(*owner, "__getitem__") is not None and resolver.method(*owner, "__iter__") is None
            for owner in found
        )
        for found in owners
    )
