"""Data sets whose samples always raise an error, as what makes them uses a name that nothing defines, or calls with
arguments that do not fit, or has a part that cannot be collated: the first batch ends the program."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.query import query
from gpulint.semantic.failing_results import failures
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_flow import LoaderFlow
from gpulint.training.loop_iterables import unwrap_iterable
from gpulint.training.unfit_batches import collated_none
from gpulint.workload.changed_parts import makers_of
from gpulint.workload.dataset_work import parts_of
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader

_MAKERS = frozenset({"__getitem__", "__iter__", "__call__", "forward"})
"""Methods that run for each sample or batch; others of their class may be called under a condition."""


@query
def failing_sample(project: Project, loader: Loader) -> tuple[ModuleIndex, ast.expr] | None:
    """Return what raises an error in each sample or batch of a loader: in a method of its one data set, in a transform,
    or in a function that puts batches together."""
    data_sets = _data_sets(project, loader)
    for maker in dict.fromkeys((*makers_of(project, loader), *_set_outside(project, loader))):
        owner = maker.module.class_of(maker.node)
        if owner is not None and (
            getattr(maker.node, "name", "") not in _MAKERS or (owner in data_sets and len(data_sets) > 1)
        ):
            continue
        for failed in failures(project, maker.module, maker.node):
            return maker.module, failed
    return collated_none(project, loader)


def draws_failing(project: Project, module: ModuleIndex, loop: ast.AST) -> bool:
    """Return whether a loop draws from loaders alone whose samples always raise an error."""
    if not isinstance(loop, ast.For | ast.AsyncFor):
        return False
    loaders = project.fact(LoaderFlow).loaders_of(module, unwrap_iterable(loop.iter))
    return bool(loaders) and all(failing_sample(project, loader) is not None for loader in loaders)


def _data_sets(project: Project, loader: Loader) -> set[ast.ClassDef]:
    """Return the classes of the tree that a loader may draw its samples from."""
    resolver = project.fact(Resolver)
    return {
        owner
        for source in parts_of(project, loader)
        if isinstance(source.node, ast.expr)
        for _, owner in resolver.classes_of(source.module, source.node)
    }


def _set_outside(project: Project, loader: Loader) -> Iterator[NodeRef]:
    """Yield the functions of the tree that the module of a loader sets as attributes of its data set, such as a
    transform (``photos.transform = flip``)."""
    resolver, module = project.fact(Resolver), loader.module
    made = {source.node for source in parts_of(project, loader)}
    for statement in module.syntax.of(ast.Assign):
        match statement.targets:
            case [ast.Attribute(value=ast.Name(id=name) as owner)] if name != "self":
                if any(ref.node in made for ref in resolver.points_to(module, owner)):
                    found = resolver.points_to(module, statement.value)
                    yield from (ref for ref in found if isinstance(ref.node, FUNCTIONS))
