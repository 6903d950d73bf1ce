"""Inner loops of a single round: over the samples of batches of one, over a table of one entry."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gpulint.documents.python import walk
from gpulint.placement.sync_points import SyncPoint
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.reaching_definitions import reaching
from gpulint.training.loader_calls import Loader, loader_argument
from gpulint.training.loader_flow import LoaderFlow
from gpulint.training.loop_contexts import LoopContext
from gpulint.values.arguments import ArgumentState
from gpulint.values.constants import Constants
from gpulint.workload.small_batches import is_batch_size
from gpulint.workspace.module_index import ModuleIndex, last_name
from gpulint_rules.data.single_entries import has_one_entry
from gpulint_rules.data.wait_counts import inner_loops

MAX_NAMES = 3
"""Names that a size is followed through, at most."""


def single_rounds(
    project: Project, module: ModuleIndex, found: Sequence[tuple[SyncPoint, LoopContext]]
) -> frozenset[ast.AST]:
    """Return the loops over tables of one entry around some reads, and the outermost loops over samples if batches of
    the training hold one sample by its settings and defaults."""
    loops = {(context.loop.module, context.loop.node) for _, context in found}
    outermost, single = set[ast.AST](), set[ast.AST]()
    for sync, context in found:
        inner = inner_loops(module, sync.node, context.loop.node)
        outermost.update([one for one in inner if passes_samples(module, one)][-1:])
        single.update(one for one in inner if has_one_entry(project, module, one))
    of_one = outermost if outermost and all(_draws_one(project, *loop) for loop in loops) else set[ast.AST]()
    return frozenset(single | of_one)


@query
def _draws_one(project: Project, module: ModuleIndex, loop: ast.AST) -> bool:
    """Return whether all batches that a loop draws are known to hold one sample."""
    loaders = project.fact(LoaderFlow).loaders_of(module, loop.iter) if isinstance(loop, ast.For) else ()
    return bool(loaders) and all(_has_batches_of_one(project, loader) for loader in loaders)


def _has_batches_of_one(project: Project, loader: Loader) -> bool:
    size = loader_argument(project, loader, "batch_size")
    if size.passed is not ArgumentState.ALWAYS or size.unknown:
        return False
    return bool(size.refs) and all(
        project.fact(Constants).of(ref.module, ref.node, ref.path).every(lambda value: value == 1) for ref in size.refs
    )


def passes_samples(module: ModuleIndex, loop: ast.AST) -> bool:
    """Return whether a loop counts the samples of a batch: ``for i in range(labels.size(0))``."""
    match loop:
        case ast.For(iter=source, target=target) | ast.comprehension(iter=source, target=target):
            pass
        case _:
            return False
    if not isinstance(source, ast.Call) or last_name(source.func) not in ("range", "trange") or len(source.args) != 1:
        return False
    size, names = source.args[0], 0
    while isinstance(size, ast.Name) and not is_batch_size(size.id) and names < MAX_NAMES:
        bound = reaching(module, module.scope(size).lookup(size.id), size)
        if len(bound) != 1 or bound[0].value is None:
            return False
        if bound[0].path:
            return bound[0].path == (0,) and _is_shape(bound[0].value)
        size, names = bound[0].value, names + 1
    if isinstance(size, ast.Name | ast.Attribute):
        return is_batch_size(last_name(size))
    dimension = _dimension(size)
    return dimension == 0 or (dimension == 1 and isinstance(target, ast.Name) and _picks_first(loop, target.id))


def _dimension(size: ast.expr) -> int | None:
    """Return the dimension of a tensor of which this is the size; None for anything else."""
    match size:
        case ast.Call(func=ast.Name(id="int"), args=[inner]):
            return _dimension(inner)
        case ast.Call(
            func=ast.Attribute(value=ast.Name() | ast.Attribute(), attr="size"), args=[ast.Constant(value=int(number))]
        ):
            return number
        case ast.Subscript(
            value=ast.Attribute(value=ast.Name() | ast.Attribute(), attr="shape"), slice=ast.Constant(value=int(number))
        ):
            return number
    return None


def _is_shape(value: ast.expr) -> bool:
    """``outputs.shape``, ``outputs.shape[:2]``, ``outputs.size()``"""
    match value:
        case (
            ast.Attribute(attr="shape")
            | ast.Subscript(value=ast.Attribute(attr="shape"), slice=ast.Slice(lower=None, step=None))
        ):
            return True
        case ast.Call(func=ast.Attribute(attr="size"), args=[], keywords=[]):
            return True
    return False


def _picks_first(loop: ast.AST, index: str) -> bool:
    """Return whether a loop takes elements of something by its index alone (``lengths[i]``), as only samples of a batch
    beside the time of its outputs are."""
    return any(
        isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Name) and part.slice.id == index
        for statement in getattr(loop, "body", ())
        for part in walk(statement)
    )
