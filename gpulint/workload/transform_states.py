"""Transforms of libraries that draw from a random state of their own, made with the object before the workers start:
each worker gets a copy of it in the same state."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.libraries.names import matches
from gpulint.programs.package_lists import is_too_old
from gpulint.query import query
from gpulint.records import dataclass
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_calls import loader_argument
from gpulint.workload.conversions import draws_nothing
from gpulint.workload.dataset_work import parts_of
from gpulint.workload.global_draws import run_for_samples
from gpulint.workspace.module_index import NodeRef, dotted

if TYPE_CHECKING:
    from gpulint.libraries.releases import OwnRandomState
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader


@dataclass(frozen=True, slots=True)
class DrawingTransform:
    """A transform that draws the same numbers in all workers."""

    name: str
    """How samples call it: ``self.transform``."""
    seed: str
    """The method that seeds it."""

    @property
    def seeded(self) -> str:
        """The call of it that seeds it in a worker."""
        return f"{self.seed}(torch.initial_seed() % 2**32)"


@query
def drawing_transform(project: Project, loader: Loader) -> DrawingTransform | None:
    """Return a transform of the samples with a random state of its own that nothing seeds in a worker; None if there
    is none, or the program is installed with a release of its library whose transforms have no such state."""
    if not loader_argument(project, loader, "worker_init_fn").is_absent:
        return None
    rows = [row for row in project.models.rows("own-random-state") if _is_used(project, loader, row)]
    if not rows:
        return None
    makers = run_for_samples(project, loader)
    parts = [(maker, part) for maker in makers for part in walk(maker.node)]
    seeds = {row.seed for row in rows} | {"get_worker_info"}
    if any(isinstance(part, ast.Attribute) and part.attr in seeds for _, part in parts):
        return None
    inside, given = {maker.node for maker in makers}, _given(project, loader)
    for maker, call in parts:
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name | ast.Attribute):
            for row in rows:
                made = _made(project, row, NodeRef(maker.module, call.func), inside)
                of_set = [one for one in made if one in given] or made
                if any(not draws_nothing(project, one) for one in of_set):
                    return DrawingTransform(dotted(call.func) or "transform", row.seed)
    return None


def _is_used(project: Project, loader: Loader, row: OwnRandomState) -> bool:
    return any(project.python_files_with(package.encode()) for package in row.imports) and not is_too_old(
        project, loader.module.path, row.packages, row.release
    )


def _made(project: Project, row: OwnRandomState, called: NodeRef, inside: set[ast.AST]) -> list[NodeRef]:
    """Return the transforms of a library that a call may be of, without those that functions make which samples are
    made with."""
    resolver = project.fact(Resolver)
    return [
        one
        for one in resolver.points_to(called.module, called.node)
        if isinstance(one.node, ast.Call)
        and not one.path
        and matches(row.classes, resolver.call_names(one.module, one.node))
        and one.module.function(one.node) not in inside
    ]


def _given(project: Project, loader: Loader) -> set[NodeRef]:
    """Return what the data sets of a loader are made with: others of their classes may have other transforms."""
    points_to = project.fact(Resolver).points_to
    return {
        made
        for source in parts_of(project, loader)
        if isinstance(source.node, ast.Call)
        for argument in (*source.node.args, *(keyword.value for keyword in source.node.keywords))
        for made in points_to(source.module, argument)
    }
