"""Samplers that a training loop follows step by step: it tells them what came of a batch, or stores how far they are.
Loaders with workers draw indices for several batches ahead."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.placement.batch_flow import BatchFlow
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_calls import loader_argument
from gpulint.workload.gpu_samples import reached
from gpulint.workload.refreshed_data import set_by
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, ModuleIndex, NodeRef

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader

_ARGUMENTS = ("batch_sampler", "sampler")


@query
def followed_sampler(project: Project, loader: Loader) -> str:
    """Return the argument of a loader that is a sampler of the tree whose state a loop over the batches changes, or
    reads (``sampler.update(losses)``, ``sampler.position``); empty if there is none."""
    resolver = project.fact(Resolver)
    reads = [read.where for read in project.fact(BatchFlow).of_loader(loader.module, loader.node)]
    loops = dict.fromkeys(where for where in reads if isinstance(where.node, LOOPS))
    for name in _ARGUMENTS:
        origins = [
            origin
            for ref in loader_argument(project, loader, name).refs
            for origin in resolver.points_to(ref.module, ref.node)
        ]
        made = {origin.node for origin in origins}
        shared = {
            attribute
            for origin in origins
            if isinstance(origin.node, ast.expr)
            for where, owner in resolver.classes_of(origin.module, origin.node)
            for attribute in _shared(where, owner)
        }
        used = (part for loop in loops for part in _used(loop))
        if any(
            attribute in shared and any(ref.node in made for ref in resolver.points_to(module, held))
            for module, held, attribute in used
        ):
            return name
    return ""


def _used(loop: NodeRef) -> Iterator[tuple[ModuleIndex, ast.expr, str]]:
    """Yield what a loop takes attributes and methods of: ``sampler`` of ``sampler.update(losses)``."""
    for part in walk(loop.node):
        if isinstance(part, ast.Attribute):
            yield loop.module, part.value, part.attr


@query
def _shared(module: ModuleIndex, owner: ast.ClassDef) -> frozenset[str]:
    """The attributes of a sampler that its iteration sets, those that it reads and other methods set, and the methods
    that set or read them."""
    methods = {part.name: part for part in owner.body if isinstance(part, ast.FunctionDef)}
    if (iterates := methods.get("__iter__")) is None:
        return frozenset()
    run = reached(methods, iterates)
    others = [method for name, method in methods.items() if method not in run and not name.startswith("__")]
    stored = {name for method in run for name in set_by(method)}
    read = {name for method in run for name in _own(method)}
    told = {method.name for method in others if read & {*set_by(method)}}
    asked = {method.name for method in others if stored & {*_own(method)}}
    return frozenset(stored | told | asked)


def _own(method: ast.AST) -> Iterator[str]:
    assert isinstance(method, FUNCTIONS)
    for part in walk(method):
        match part:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Load()):
                yield name
