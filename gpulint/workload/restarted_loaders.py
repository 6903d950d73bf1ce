"""Loaders that each round of a loop starts anew for a few batches."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.documents.call_syntax import keyword_value
from gpulint.placement.batch_flow import BatchFlow
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.bounded_loops import is_restarted
from gpulint.training.guards import Guards
from gpulint.training.loader_flow import LoaderFlow
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader


@query
def is_started_anew(project: Project, loader: Loader) -> bool:
    """Return whether each round of a loop starts the loader again, and leaves it after some batches: workers would be
    restarted as often, and what they prefetched thrown away."""
    reads = project.fact(BatchFlow).of_loader(loader.module, loader.node)
    if bool(reads) and all(is_restarted(project, read.where) for read in reads):
        return True
    return serves_one_batch(project, loader) or _is_made_an_iterator_in_steps(project, loader)


@query
def is_iterated_in_steps(project: Project, loader: Loader) -> bool:
    """Return whether each loop over a loader is in one over the batches of another loader of its module (``for image in
    images: for points in grid``): a pass, at whose start workers draw anew, belongs to a step of that."""
    flow, module = project.fact(BatchFlow), loader.module
    others = {
        read.where.node
        for other in project.fact(LoaderFlow).in_module(module)
        if other.node is not loader.node
        for read in flow.of_loader(module, other.node)
    }
    loops = [
        _loop_around(read.where.module, read.where.node)
        for read in flow.of_loader(module, loader.node)
        if isinstance(read.where.node, LOOPS)
    ]
    return bool(loops) and all(loop is not None and loop.node in others for loop in loops)


def _is_made_an_iterator_in_steps(project: Project, loader: Loader) -> bool:
    """Return whether each step of a training takes the first batch of a loader of its module (``next(iter(loader))``),
    whatever else passes over it."""
    module, flow, guards = loader.module, project.fact(LoaderFlow), project.fact(Guards)
    return any(
        any(context.role is Role.STEP for context in project.fact(LoopContexts).enclosing_loops(module, call))
        and not guards.is_periodic(module, call)
        and any(one.node is loader.node for one in flow.loaders_of(module, source))
        for call, source in _first_draws(module)
    )


@query
def _first_draws(module: ModuleIndex) -> tuple[tuple[ast.Call, ast.expr], ...]:
    """Return each ``next(iter(loader))`` of a module, with the loader."""
    return tuple(
        (call, made.args[0])
        for call in module.calls_by_name.get("next", ())
        if isinstance(call.func, ast.Name) and call.args
        for made in call.args[:1]
        if isinstance(made, ast.Call) and last_name(made.func) == "iter" and len(made.args) == 1
    )


@query
def serves_one_batch(project: Project, loader: Loader) -> bool:
    """Return whether each round of a loop makes the loader and takes the first batch of it (``images, labels =
    next(iter(make_task()))``), such as that of a task with a few classes. A round may pass over it where that is the
    one batch that it has, and what evaluates elsewhere."""
    rounds = [loop for site in _sites(project, loader) if (loop := _loop_around(*site)) is not None]
    if not rounds:
        return False
    if not any(_takes_first(project, loader, loop) for loop in rounds):
        return False
    holds_all = _draws_picks(loader)
    draws = (read.where for read in project.fact(BatchFlow).of_loader(loader.module, loader.node))
    return all(
        holds_all
        if _loop_around(draw.module, draw.node) in rounds
        else project.fact(LoopContexts).role(draw.module, draw.node) is not Role.STEP
        for draw in draws
        if isinstance(draw.node, LOOPS)
    )


def _draws_picks(loader: Loader) -> bool:
    """Return whether the size of a batch is counted like the samples that are picked for it: ``DataLoader(data,
    batch_size=classes * shots, sampler=SubsetRandomSampler(picks))``."""
    size = keyword_value(loader.node, "batch_size")
    counted = isinstance(size, ast.BinOp) and isinstance(size.op, ast.Mult)
    return counted and keyword_value(loader.node, "sampler") is not None


def _sites(project: Project, loader: Loader) -> Iterator[tuple[ModuleIndex, ast.AST]]:
    """Yield the place that makes a loader if a loop is around it, else the calls of its function."""
    module = loader.module
    function = module.function(loader.node)
    if _loop_around(module, loader.node) is not None or function is None:
        yield module, loader.node
        return
    for site in project.fact(Resolver).call_sites(module, function):
        yield site.module, site.node


def _loop_around(module: ModuleIndex, node: ast.AST) -> NodeRef | None:
    """Return the innermost loop around a node in its function."""
    up = next((one for one in module.syntax.ancestors(node) if isinstance(one, (*LOOPS, *FUNCTIONS))), None)
    return NodeRef(module, up) if isinstance(up, LOOPS) else None


def _is_in(draw: NodeRef, loop: NodeRef) -> bool:
    return draw.module is loop.module and loop.node in draw.module.syntax.ancestors(draw.node)


def _takes_first(project: Project, loader: Loader, loop: NodeRef) -> bool:
    """Return whether a loop takes the first batch of a loader: ``next(iter(loader))``."""
    module, flow = loop.module, project.fact(LoaderFlow)
    return any(
        _is_in(NodeRef(module, call), loop) and any(one.node is loader.node for one in flow.loaders_of(module, source))
        for call, source in _first_draws(module)
    )
