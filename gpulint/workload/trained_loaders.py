"""Which loaders of training samples a program trains with: others pass without gradients, for features or scores."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.placement.batch_flow import BatchFlow
from gpulint.semantic.points_to import Resolver
from gpulint.training.guards import Guards
from gpulint.training.loader_flow import LoaderFlow
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.workload.batch_sources import BatchSource
from gpulint.workload.data_split import Split
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_LOOKS = frozenset({"len", "print", "enumerate", "tqdm", "iter", "info"})
"""Calls that take a loader and train nothing."""


def trained_on(project: Project, training: list[BatchSource], made: Iterable[BatchSource]) -> list[BatchSource]:
    """Return the training batches of a place; those that no step draws from give way to those that steps take.

    A ``train_loader`` for a look at the data set may stand where evaluation loaders do, and the training make its own.
    """
    training = [source for source in training if not _is_only_evaluated(project, source)]
    if not training or any(_is_stepped_through(project, source) is not False for source in training):
        return training
    others = [source for source in made if source.split is Split.TRAIN and _is_stepped_through(project, source)]
    return others or training


def _is_stepped_through(project: Project, source: BatchSource) -> bool | None:
    """Return whether training steps draw from a loader. None if no loop is known to."""
    draws = project.fact(BatchFlow).of_loader(source.call.module, source.node)
    loops = [batch_read.where for batch_read in draws if isinstance(batch_read.where.node, LOOPS)]
    roles = {
        project.fact(LoopContexts).role(where.module, where.node) for where in loops if isinstance(where.node, LOOPS)
    }
    return Role.STEP in roles if roles else None


def _is_only_evaluated(project: Project, source: BatchSource) -> bool:
    """Return whether all that happens to the batches of a loader is that a model runs on them without gradients."""
    module = source.call.module
    loaders = project.fact(LoaderFlow).loaders_of(module, source.node)
    reads = [one.where for made in loaders for one in project.fact(BatchFlow).of_loader(made.module, made.node)]
    if not reads or not all(_passes_without_gradients(project, where) for where in reads):
        return False
    return all(_users(project, source))


def _passes_without_gradients(project: Project, where: NodeRef) -> bool:
    """Return whether a loop goes through batches in a block or function without gradients."""
    return isinstance(where.node, LOOPS) and project.fact(Guards).is_without_gradients(where.module, where.node)


def _users(project: Project, source: BatchSource) -> Iterator[bool]:
    """Yield, for each place that reads the name of a loader, whether what becomes of it is known."""
    module, made = source.call.module, source.node
    match module.syntax.parents.get(made):
        case ast.Assign(targets=[ast.Name(id=name)]):
            pass
        case _:
            yield False
            return
    for read in walk(module.function(made) or module.syntax.tree):
        if isinstance(read, ast.Name) and read.id == name and isinstance(read.ctx, ast.Load):
            up = module.syntax.parents.get(read)
            up = module.syntax.parents.get(up) if isinstance(up, ast.keyword) else up
            known = isinstance(up, ast.Call) and (
                last_name(up.func) in _LOOKS
                or any(isinstance(one.node, FUNCTIONS) for one in project.fact(Resolver).callees(module, up))
            )
            yield known or isinstance(up, (*LOOPS, ast.comprehension))
