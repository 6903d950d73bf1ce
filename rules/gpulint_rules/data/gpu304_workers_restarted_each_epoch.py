"""What it detects
A ``torch.utils.data.DataLoader`` with ``num_workers`` above 0 and without ``persistent_workers=True`` that several
epochs read.

Recognizes epoch loops that are written out in PyTorch, not those of a framework's trainer; the loaders of torchdata,
PyG, DGL, MONAI and WebDataset.

Why it costs GPU time
At the start of every epoch all worker processes are restarted, and the GPU waits until the first batch is ready:
for large data sets or many imports this takes from seconds to minutes. Inefficient host-GPU data transfer is the
most frequent category of the study: 27.9% of 706 issues in 400 jobs.

When to ignore this rule
The data set changes between epochs (workers would keep their old copy); memory is short (training and evaluation
workers then live at the same time); epochs are so long that the start of workers is negligible.

Fix safety
Unsafe: workers keep their copy of the data set and their random state from one epoch to the next, and draw their seed
once instead of at the start of every epoch, so from the second epoch on the same seed gives another order.

References
https://pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint.documents.base import Document
from gpulint.documents.python import walk
from gpulint.finding import Finding, Place, Severity
from gpulint.fix import Safety
from gpulint.impact import Cost
from gpulint.libraries import gate_words
from gpulint.placement.batch_flow import BatchFlow
from gpulint.programs.api_releases import lacks
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint.rule import Category, Dimension, Evidence, Kind, Rule
from gpulint.semantic.path_conditions import conditions, is_ending
from gpulint.semantic.points_to import Resolver
from gpulint.source import Span
from gpulint.training.guards import Guards
from gpulint.training.loader_calls import Loader, loader_argument
from gpulint.training.loader_flow import LoaderFlow
from gpulint.training.loop_contexts import LoopContext, LoopContexts
from gpulint.training.loop_iterables import unwrap_iterable
from gpulint.training.loop_roles import Role
from gpulint.values.arguments import ArgumentState
from gpulint.values.constants import Constants
from gpulint.values.moving_thresholds import sets_record
from gpulint.workload.dataset_work import parts_of
from gpulint.workload.item_work import ItemWorks
from gpulint.workload.persistent_workers import against_persistence
from gpulint.workload.sample_counts import is_written_out
from gpulint.workspace.module_index import ModuleIndex, NodeRef, last_name

_OWN_CACHES = ", so that each worker also keeps the samples that it has made, in a cache of its own"


@dataclass(frozen=True, slots=True)
class Restarted:
    """The loader, and the expression for its number of workers."""

    loader: Loader
    workers: NodeRef


def check(document: Document, project: Project) -> Iterator[Finding]:
    module = project.module(document)
    if module is None or not project.fact(GpuPrograms).runs_on_gpu(module):
        return
    if lacks(project, document.path, "persistent_workers"):
        return
    for loader in project.fact(LoaderFlow).in_module(module):
        workers = loader_argument(project, loader, "num_workers")
        if workers.passed is not ArgumentState.ALWAYS or workers.unknown or not _several(project, workers.refs):
            continue
        kept = loader_argument(project, loader, "persistent_workers")
        if not kept.is_absent and not all(
            project.fact(Constants).of(ref.module, ref.node).every(lambda value: value is False) for ref in kept.refs
        ):
            continue
        if (
            kept.passed is ArgumentState.UNKNOWN
            or project.fact(LoopContexts).in_role(module, loader.node, Role.EPOCH) is not None
        ):
            continue
        epochs = _epochs(project, loader)
        if epochs is None or is_written_out(project, loader) or against_persistence(project, loader):
            continue
        name = loader.variable
        yield RULE.finding(
            document.path,
            module.syntax.span(loader.node),
            (f"the workers of DataLoader '{name}'" if name else "the loader's workers") + " are restarted every epoch",
            help=f"pass `persistent_workers=True` to {f'`{name}`' if name else 'it'}"
            + (_OWN_CACHES if project.fact(ItemWorks).of(loader).keeps else ""),
            payload=Restarted(loader, workers.refs[0]),
            cost=Cost("worker-start", _most(project, workers.refs), loader=loader),
            related=(Place(epochs.module.path, _header(epochs), "the loop over epochs"),),
        )


def _most(project: Project, refs: tuple[NodeRef, ...]) -> int:
    """The largest known number of workers."""
    known = (value for ref in refs for value in project.fact(Constants).of(ref.module, ref.node).constants)
    return max((value for value in known if isinstance(value, int)), default=1)


def _several(project: Project, refs: tuple[NodeRef, ...]) -> bool:
    """Return whether the number of workers is known, and more than zero."""
    known = [project.fact(Constants).of(ref.module, ref.node) for ref in refs]
    return bool(known) and all(value.every(lambda number: isinstance(number, int) and number > 0) for value in known)


def _epochs(project: Project, loader: Loader) -> NodeRef | None:
    """The loop over several epochs in which the batches of a loader are drawn."""
    loops, periodic = project.fact(LoopContexts), project.fact(Guards).is_periodic
    if _goes_on(project, loader):
        return None
    for batch_read in project.fact(BatchFlow).of_loader(loader.module, loader.node):
        where = batch_read.where
        if is_ending(where.module, where.node):
            continue
        for loop in loops.around(where.module, where.node):
            if (
                loop is not where.node
                and loops.role(where.module, loop) is Role.EPOCH
                and _repeats(project, where.module, loop)
                and not periodic(where.module, where.node, loop)
                and not project.fact(Guards).is_off_by_default(where.module, where.node, loop)
                and not _is_for_records(where.module, where.node, loop)
                and not _is_made_again(project, loader, where, loop)
            ):
                return NodeRef(where.module, loop)
        function = where.module.function(where.node)
        for context in loops.enclosing_loops_of_function(where.module, function) if function is not None else ():
            if (
                context.role is Role.EPOCH
                and _repeats(project, context.loop.module, context.loop.node)
                and not any(periodic(site.module, site.node) for site in context.calls)
                and not _is_off(project, where, context)
                and not any(_is_for_records(site.module, site.node, context.loop.node) for site in context.calls)
                and not any(_is_made_again(project, loader, site, context.loop.node) for site in context.calls)
                and project.fact(BatchFlow).passes_loader(loader, batch_read, context)
            ):
                return context.loop
    return None


def _is_for_records(module: ModuleIndex, node: ast.AST, loop: ast.AST) -> bool:
    """Return whether a place in a loop runs only in the epochs that are better than all before."""
    return any(sets_record(module, test, holds) for test, holds in conditions(module, node, loop))


def _is_made_again(project: Project, loader: Loader, read: NodeRef, loop: ast.AST) -> bool:
    """Return whether a loop makes a loader again under the name by which it is read or passed on, in a branch that is
    not off by default, as its data set changes: ``if epoch and cfg.reload: loader = DataLoader(dataset, ...)``."""
    flow, module = project.fact(LoaderFlow), read.module
    match read.node:
        case ast.For(iter=source):
            passed = [unwrap_iterable(source)]
        case ast.Call(args=args, keywords=keywords):
            passed = [*args, *(keyword.value for keyword in keywords)]
        case _:
            passed = []
    names = {
        ast.unparse(one)
        for one in passed
        if isinstance(one, ast.Name | ast.Attribute)
        and any(found.node is loader.node for found in flow.loaders_of(module, one))
    }
    return bool(names) and any(
        isinstance(part, ast.Assign)
        and isinstance(part.value, ast.Call)
        and any(ast.unparse(target) in names for target in part.targets)
        and bool(flow.loaders_of(module, part.value))
        and not any(isinstance(inner, ast.expr) and ast.unparse(inner) in names for inner in walk(part.value))
        and not project.fact(Guards).is_off_by_default(module, part, loop)
        for part in walk(loop)
    )


def _is_off(project: Project, where: NodeRef, context: LoopContext) -> bool:
    """Return whether an option that is off by default leads from a loop over epochs to a loop over batches."""
    guards = project.fact(Guards)
    return guards.is_off_by_default(where.module, where.node) or any(
        guards.is_off_by_default(site.module, site.node, context.loop.node) for site in context.calls
    )


def _goes_on(project: Project, loader: Loader) -> bool:
    """Return whether a loader class of the tree hands out batches by an iterator of its own, or the sampler of a loader
    never ends."""
    resolver = project.fact(Resolver)
    classes = [
        (made.module, made.node)
        for made in resolver.points_to(loader.module, loader.node.func)
        if isinstance(made.node, ast.ClassDef)
    ]
    if any(resolver.method(where, owner, "__iter__") is not None for where, owner in classes):
        return True
    parts = [ref for name in ("sampler", "batch_sampler") for ref in loader_argument(project, loader, name).refs]
    return any(
        (method := resolver.method(where, owner, "__iter__")) is not None and _is_endless(method)
        for part in (*parts, *parts_of(project, loader))
        if isinstance(part.node, ast.expr)
        for where, owner in resolver.classes_of(part.module, part.node)
    )


def _is_endless(method: NodeRef) -> bool:
    """``while True:`` without an end"""
    return any(
        isinstance(part, ast.While)
        and isinstance(part.test, ast.Constant)
        and part.test.value
        and not any(isinstance(inner, ast.Break | ast.Return | ast.Raise) for inner in walk(part))
        for part in walk(method.node)
    )


def _repeats(project: Project, module: ModuleIndex, loop: ast.AST) -> bool:
    """Return whether the loop is one over epochs that is not known to run once."""
    if not isinstance(loop, ast.For):
        return isinstance(loop, ast.While)
    source = loop.iter
    if isinstance(source, ast.List | ast.Tuple) and not any(isinstance(part, ast.Starred) for part in source.elts):
        return len(source.elts) > 1
    if isinstance(source, ast.Call) and last_name(source.func) in ("range", "trange") and source.args:
        bounds = [project.fact(Constants).of(module, argument) for argument in source.args[:2]]
        if all(bound.complete and len(bound.values) == 1 for bound in bounds):
            first, last = ([0] if len(bounds) == 1 else []) + [bound.values[0].value for bound in bounds]
            if isinstance(first, int) and isinstance(last, int):
                return last - first > 1
    return True


def _header(loop: NodeRef) -> Span:
    node = loop.node
    return loop.module.syntax.span(node.iter if isinstance(node, ast.For | ast.AsyncFor) else node.test)  # type: ignore[attr-defined]


RULE = Rule(
    code="GPU304",
    name="workers-restarted-each-epoch",
    category=Category.HOST_GPU_TRANSFER,
    dimension=Dimension.DATA,
    severity=Severity.INFO,
    kinds=frozenset({Kind.PYTHON, Kind.NOTEBOOK}),
    reads=("loader",),
    tokens=((*gate_words("loader"), "Loader"),),
    summary="DataLoader restarts its worker processes in every epoch",
    why="the GPU waits at the start of every epoch until new workers deliver",
    evidence=(Evidence("27.9% of 706 issues in 400 jobs with GPU utilization of 50% or less"),),
    check=check,
    cost=Cost("worker-start"),
    fix=Safety.UNSAFE,
    bad="""\
loader = DataLoader(dataset, batch_size=64, num_workers=8)
for epoch in range(90):
    for batch in loader:
        step(batch.cuda())
""",
    good="""\
loader = DataLoader(dataset, batch_size=64, num_workers=8, persistent_workers=True)
for epoch in range(90):
    for batch in loader:
        step(batch.cuda())
""",
    references=("https://pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader",),
)
