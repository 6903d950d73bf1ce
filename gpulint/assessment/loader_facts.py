"""What the loops over a loader say of how much a finding on it matters."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.assessment.amounts import batch_of, loader_batch, sample_seconds
from gpulint.assessment.constants import figure, kind, middle
from gpulint.assessment.frequency import draws_held_out, is_drawn_in_few_epochs, only_evaluates
from gpulint.assessment.image_sides import side
from gpulint.documents.call_syntax import keyword_value
from gpulint.documents.python import walk
from gpulint.placement.batch_flow import BatchFlow, BatchRead
from gpulint.placement.device_transfers import DeviceTransfers
from gpulint.placement.host_to_device import HostToDevice
from gpulint.query import query
from gpulint.semantic.path_conditions import is_unreachable
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import are_exclusive
from gpulint.training import bounded_loops
from gpulint.training.collecting_loops import only_collects
from gpulint.training.guards import Guards
from gpulint.training.loader_calls import loader_argument
from gpulint.training.loader_flow import LoaderFlow
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.values.constants import Constants
from gpulint.workload.item_work import ItemWorks
from gpulint.workload.loader_media import differ_in_medium
from gpulint.workload.restarted_loaders import is_started_anew
from gpulint.workload.sample_counts import most_samples
from gpulint.workload.single_sample_evaluation import is_repeated
from gpulint.workload.worker_supply import loads_in_process
from gpulint.workspace.module_index import COMPREHENSIONS, FUNCTIONS, LOOPS, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader
    from gpulint.workspace.module_index import ModuleIndex

_PADS = regex.compile(r"^(default_data_collator|DataCollator(WithPadding|With\w*Padding|For\w+)?)$")
"""Collators of transformers, which pad and stack."""
_IN_PROCESS = "in-process-loading"
USUAL_WORKERS = 8
"""As many as programs usually set."""
SMALL_SIDE = 64
"""Most pixels of a side of a small image."""
MAX_CALLS = 3
"""Most functions that call each other to a loop over a loader."""
_WORKS = regex.compile(r"tokeni[sz]|encode|\.split\(|vocab|stoi|word2|open\(|read", re.IGNORECASE)
"""Words of functions that make numbers of texts."""


def takes_short_in_all(subject: Subject) -> bool:
    """Return whether all that a loader is seen to make, over all epochs, takes no longer than what counts for little
    once per run: some thousand samples, of which each is looked up and scaled, for a few epochs."""
    loader, project = subject.cost.loader if subject.cost is not None else None, subject.project
    samples = most_samples(project, loader) if loader is not None else 0
    work = project.fact(ItemWorks).of(loader) if loader is not None and samples else None
    if loader is None or work is None or not work.kinds:
        return False
    epochs = [_epochs(project, read.where) for read in project.fact(BatchFlow).of_loader(loader.module, loader.node)]
    each = middle(sample_seconds(work, loader_batch(project, loader)))
    whole = sum(epochs) * samples * each
    return bool(epochs) and all(epochs) and whole < figure("levels", "medium_gpu_seconds")


def starts_longer_than_it_loads(subject: Subject) -> bool:
    """Return whether one process makes the few samples of an epoch in the time in which workers start."""
    loader, project = subject.cost.loader if subject.cost is not None else None, subject.project
    samples = most_samples(project, loader) if loader is not None else 0
    work = project.fact(ItemWorks).of(loader) if loader is not None and samples else None
    if loader is None or work is None or not work.kinds:
        return False
    batch, kinds = loader_batch(project, loader), work.kinds
    if batch.kind == "small-image" and side(project, loader) <= SMALL_SIDE:
        # To resample them takes as long as any other transform.
        kinds = tuple("transform" if one in ("resample", "pixels") else one for one in kinds)
    each = middle(sample_seconds(dataclasses.replace(work, kinds=kinds), batch))
    return samples * each < middle(kind("worker-start").seconds or (0, 0)) * USUAL_WORKERS


def only_transforms(subject: Subject) -> bool:
    """Return whether nothing is seen to be done for a sample but transforms, as of arrays that the data set holds in
    memory, perhaps of rows that a loop picks: more rows take longer to send as well. Readers thanked for 2 of 32
    findings on samples in memory, and 6 were wrong: workers, to which each sample has to be sent, made the loading
    slower (benchmarks/verdicts/usefulness). Sets of small images take seconds, and a volume milliseconds."""
    loader = subject.cost.loader if subject.cost is not None else None
    if loader is None:
        return False
    work, batch = subject.project.fact(ItemWorks).of(loader), loader_batch(subject.project, loader)
    collects = "collect" in work.kinds
    return (
        bool(work.kinds)
        and {"transform", "collect"}.issuperset(work.kinds)
        and batch.kind not in ("small-image", "volume")
        and not (collects and batch.kind == "text")  # of which it makes numbers
    )


@query
def _epochs(project: Project, loop: NodeRef, calls: int = MAX_CALLS) -> int:
    """Return how often a loop over a loader runs in the loops around it, also those that call its function; 0 if one
    does not say."""
    times, contexts = 1, project.fact(LoopContexts)
    for up in contexts.around(loop.module, loop.node):
        match up:
            case ast.For(iter=ast.Call(func=ast.Name(id="range" | "trange"), args=[count])):
                known = project.fact(Constants).of(loop.module, count)
                whole = [value for value in known.constants if isinstance(value, int)]
                times *= max(whole, default=0) if known.complete and len(whole) == len(known.constants) else 0
            case _:
                return 0
    function = loop.module.function(loop.node)
    outer = contexts.enclosing_loops_of_function(loop.module, function) if function is not None and times else ()
    sites = [context.calls[0] for context in outer if context.calls]
    if not sites:
        return times
    return times * max(_epochs(project, site, calls - 1) for site in sites) if calls else 0


def holds_tokenised(subject: Subject) -> bool:
    """Return whether the batches of a loader are texts that were tokenised before and are only padded and stacked."""
    loader = subject.cost.loader if subject.cost is not None else None
    if loader is None or batch_of(subject, loader).kind != "text":
        return False
    return _only_pads(subject.project, loader)


@query
def _only_pads(project: Project, loader: Loader) -> bool:
    resolver = project.fact(Resolver)
    known = False
    for ref in loader_argument(project, loader, "collate_fn").refs:
        for made in resolver.points_to(ref.module, ref.node):
            named = made.node.func if isinstance(made.node, ast.Call) else made.node
            if isinstance(named, ast.expr) and _PADS.search(last_name(named)):
                known = True
            elif not isinstance(made.node, (*FUNCTIONS, ast.Lambda)) or _makes_numbers(made):
                return False
    for getter in _getters(project, loader):
        if _makes_numbers(getter):
            return False
        known = True
    return known


def _getters(project: Project, loader: Loader) -> Iterator[NodeRef]:
    """The functions of the tree that take a sample from the data set."""
    resolver = project.fact(Resolver)
    for source in project.fact(HostToDevice).sources(loader):
        assert isinstance(source.node, ast.expr)
        for where, owner in resolver.classes_of(source.module, source.node):
            if (found := resolver.method(where, owner, "__getitem__")) is not None:
                yield found


def _makes_numbers(function: NodeRef) -> bool:
    return bool(_WORKS.search(ast.unparse(function.node)))


def follows_loader(subject: Subject) -> bool:
    """Return whether a loader is set up as another one of its function, for samples of its kind or that need workers:
    the one with the most work for a batch, the first of equals, or for an evaluation the training loader."""
    loader = subject.cost.loader if subject.cost is not None else None
    if loader is None or loader.node is not subject.node:
        return False
    in_process = subject.cost is not None and subject.cost.kind == _IN_PROCESS
    return any(
        _leads(subject.project, other, loader, draws_held_out(subject.project, loader))
        and (
            batch_of(subject, other).kind == batch_of(subject, loader).kind
            or (in_process and _needs_workers(subject.project, other, loader))
        )
        for other in subject.project.fact(LoaderFlow).in_module(loader.module)
    )


def _needs_workers(project: Project, loader: Loader, beside: Loader) -> bool:
    """Return whether the training process makes a loader's batches, at some work, of no other medium than another's."""
    kinds = project.fact(ItemWorks).of(loader).kinds
    return bool(kinds) and loads_in_process(project, loader) and not differ_in_medium(project, loader, beside)


def _leads(project: Project, other: Loader, loader: Loader, held_out: bool) -> bool:
    """Return whether another loader of the same function has the same settings, and its finding says it all."""
    if other.node is loader.node or loader.module.scope(other.node) is not loader.module.scope(loader.node):
        return False
    sets = {ast.unparse(one.node.args[0]) if one.node.args else one.variable for one in (loader, other)}
    workers = "0" if len(sets) == 1 else ""  # of one data set, 0 workers and none given are the same
    if any(_given(other, *one) != _given(loader, *one) for one in (("num_workers", workers), ("pin_memory", ""))):
        return False
    if other.variable == loader.variable and are_exclusive(loader.module, other.node, loader.node):
        return False  # of such branches, the first one leads
    if not project.fact(BatchFlow).of_loader(other.module, other.node) or is_unreachable(other.module, other.node):
        return False
    if is_started_anew(project, other) and not is_started_anew(project, loader):
        return False
    off = project.fact(Guards).is_off_by_default
    if off(other.module, other.node) and not off(loader.module, loader.node):
        return False
    trains = not draws_held_out(project, other)
    if held_out is trains:
        return trains
    work, own = _work(project, other), _work(project, loader)
    return work > own or (work == own and other.node.lineno < loader.node.lineno)


@query
def _work(project: Project, loader: Loader) -> tuple[bool, float]:
    """Return whether most epochs draw its batches, and seconds of the work that is seen for one, at most."""
    batch, works = loader_batch(project, loader), project.fact(ItemWorks).of(loader)
    return not is_drawn_in_few_epochs(project, loader), sample_seconds(works, batch)[1] * batch.size


def _given(loader: Loader, name: str, default: str) -> str:
    value = keyword_value(loader.node, name)
    return ast.unparse(value) if value is not None else default


def feeds_no_model(subject: Subject) -> bool:
    """Return whether the loops over a loader only move and keep its batches."""
    loader = subject.cost.loader if subject.cost is not None else None
    return loader is not None and only_collects(subject.project, loader)


def is_drawn_once(subject: Subject) -> bool:
    """Return whether a program that trains draws the batches of a loader once, to evaluate or to keep them, outside of
    all epochs."""
    loader = subject.cost.loader if subject.cost is not None else None
    return loader is not None and _is_drawn_once(subject.project, loader)


@query
def _is_drawn_once(project: Project, loader: Loader) -> bool:
    reads = list(project.fact(BatchFlow).of_loader(loader.module, loader.node))
    loops = project.fact(LoopContexts)
    if not reads:
        moved = (one.batch_read for one in project.fact(DeviceTransfers).transfers_of(loader))
        reads = [read for read in moved if read is not None]
        return bool(reads) and all(_is_collected(project, read) for read in reads)
    return bool(reads) and all(
        isinstance(read.where.node, LOOPS)
        and loops.has_training_step(read.where.module)
        and (
            loops.role(read.where.module, read.where.node) is Role.EVAL
            or only_evaluates(project, loader, read.where.module, read.where.node)
        )
        and not is_repeated(project, loader, read)
        for read in reads
    )


def _is_collected(project: Project, read: BatchRead) -> bool:
    """Return whether a comprehension collects the batches for a training that goes over what it has collected."""
    module, node, loops = read.where.module, read.where.node, project.fact(LoopContexts)
    if not isinstance(node, (*COMPREHENSIONS, ast.comprehension)):
        return False
    return loops.has_training_step(module) and next(iter(loops.enclosing_loops(module, node)), None) is None


def is_left_at_once(subject: Subject) -> bool:
    """Return whether a constant ends all loops over a loader, or around a place, in their first round."""
    loader = subject.cost.loader if subject.cost is not None else None
    if loader is None:
        loops = [context.loop for context in subject.contexts]
    else:
        loops = [read.where for read in subject.project.fact(BatchFlow).of_loader(loader.module, loader.node)]
    return bool(loops) and all(bounded_loops.is_left_at_once(subject.project, loop) for loop in loops)


def moves_one_by_one(subject: Subject) -> bool:
    """Return whether all loops over a loader take the samples of each batch one by one (``batch["image"][i]``), so that
    each is copied and computed alone."""
    loader = subject.cost.loader if subject.cost is not None else None
    reads = subject.project.fact(BatchFlow).of_loader(loader.module, loader.node) if loader is not None else ()
    return bool(reads) and all(
        isinstance(read.where.node, ast.For) and _takes_samples(read.where.module, read.where.node) for read in reads
    )


@query
def _takes_samples(module: ModuleIndex, loop: ast.For) -> bool:
    inner = [part for statement in loop.body for part in walk(statement) if isinstance(part, ast.For)]
    indices = {part.id for one in inner for part in walk(one.target) if isinstance(part, ast.Name)}
    names = {part.id for part in walk(loop.target) if isinstance(part, ast.Name)}
    taken = [
        _is_taken(module, part, indices)
        for statement in loop.body
        for part in walk(statement)
        if isinstance(part, ast.Name) and part.id in names
    ]
    return True in taken and False not in taken


def _is_taken(module: ModuleIndex, part: ast.expr, indices: set[str]) -> bool | None:
    """Return whether a use of a batch takes one sample; None if it only asks for the size."""
    parents = module.syntax.parents
    while True:
        match parents.get(part):
            case ast.Subscript(value=inner, slice=ast.Name(id=name)) if inner is part and name in indices:
                return True
            case ast.Subscript(value=inner) as up if inner is part:
                part = up
            case ast.Attribute(attr="size" | "shape") | ast.Call(func=ast.Name(id="len" | "range")):
                return None
            case _:
                return False
