"""What the code may not establish of an evaluation one sample at a time: that it takes long, that more samples fit."""

from __future__ import annotations

import ast
import dataclasses
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.call_syntax import passed_as
from gpulint.documents.python import walk
from gpulint.impact import Cost
from gpulint.placement.batch_flow import BatchFlow
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.programs.multi_gpu_use import MultiGpuUse
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_calls import loader_argument
from gpulint.training.loader_flow import LoaderFlow
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.workload.batch_ratios import averages_ratios
from gpulint.workload.trainer_workers import ARGUMENTS
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.placement.batch_flow import BatchRead
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader
    from gpulint.workload.batch_sources import BatchSource

ONE = Cost("single-sample-evaluation")
ONCE = "assuming that it takes long"
SHAPES = "assuming samples of one shape"
ALONE = "assuming that nothing needs single samples"
RATIOS = "assuming that scores may be those of larger batches"

_WINDOWS = regex.compile(
    r"sliding_?window|SlidingWindow|window_inference|til(ed?|ing)_(inference|predict\w*|forward)|predict_(by_)?(patch|tile|crop)"
    r"|_tiled\b|test_time_aug|GridSampler\(",
)
"""Words of programs that cut each sample into pieces, which are the batch."""
_ONE_SHAPE = regex.compile(
    r"\b(?!Rand)\w{0,60}Crop\w{0,60}\(|\bResize\w*\((?!\s*\d+\s*(?:\)|,\s*[a-z]))|\bresize\(|\bpad(_sequence)?\b"
    r"|\bpadding\s*=\s*(True\b|[\"'])|\bPad\w*\(|max_len(gth)?\b|\bCIFAR|MNIST\b|\bSVHN\b|TensorDataset\("
)
"""What gives samples of a data set one shape. Random crops are for training, and
``Resize(224)`` sets the shorter side alone."""
_BEAM = regex.compile(r"^beam_|(^|_)beams$|complete_seqs|completed_(hyps|hypotheses)")
"""Names of searches for the best sequence of one sample that are written out."""
_TIMES = regex.compile(r"\b(perf_counter(_ns)?|time\.time|elapsed_time|record)\(")
"""Calls that take the time, or mark it on the GPU."""
_OWN_SIZES = regex.compile(r"\bpad\([^\n]{0,200}%|%[^\n]{0,200}\n(?:[^\n]{0,200}\n){0,4}[^\n]{0,200}\bpad\(")
"""Padding to a multiple of some number, which samples of one size seldom need."""
MAX_USERS = 6
"""Most programs that are read for what they do with a sample."""


def of_one(project: Project, source: BatchSource, size: int) -> Cost | None:
    """Return what batches of one cost in evaluation; None for larger ones."""
    return dataclasses.replace(ONE, assumed=_assumed(project, source)) if size == 1 else None


def _assumed(project: Project, source: BatchSource) -> str:
    """Return what a finding on such an evaluation has to assume; "" if the code establishes it."""
    if ARGUMENTS.search(last_name(source.node.func)):
        return ""  # the trainer of transformers evaluates again and again, and its collators pad
    where = source.call.module
    loader = next((one for one in project.fact(LoaderFlow).in_module(where) if one.node is source.node), None)
    reads = project.fact(BatchFlow).of_loader(where, source.node)
    if _cuts_samples(project, where) or any(_takes_first(one.where) or _is_timed(one.where) for one in reads):
        return ALONE
    if any(averages_ratios(project, one.where) for one in reads):
        return RATIOS
    if loader is None or not any(is_repeated(project, loader, one) for one in reads):
        return ONCE
    if any(_OWN_SIZES.search(ast.unparse(one.where.node)) for one in reads):
        return SHAPES
    return "" if _have_one_shape(project, loader) else SHAPES


@query
def _cuts_samples(project: Project, module: ModuleIndex) -> bool:
    users = sorted(project.fact(GpuPrograms).users(module.path))[:MAX_USERS]
    programs = project.fact(MultiGpuUse)
    return any(programs.of(path).mentions(_WINDOWS) for path in (module.path, *users))


def is_repeated(project: Project, loader: Loader, read: BatchRead) -> bool:
    """Return whether batches are drawn between the steps of a training, not once after it."""
    if isinstance(read.where.node, FUNCTIONS):
        return True  # a framework calls it after each epoch
    around = project.fact(LoopContexts).enclosing_loops(read.where.module, read.where.node)
    flow = project.fact(BatchFlow)
    return any(
        context.role in (Role.EPOCH, Role.STEP) and flow.passes_loader(loader, read, context) for context in around
    )


def _is_timed(where: NodeRef) -> bool:
    """Return whether a loop takes the time that each batch needs on the GPU."""
    text = ast.unparse(where.node)
    return "synchronize(" in text and _TIMES.search(text) is not None


def _takes_first(where: NodeRef) -> bool:
    """Return whether a loop takes the first, as if the only, sample of what it computes (``out.squeeze(0)``, or
    ``names[0]`` of ``for images, names in loader``), or searches by a beam of its own."""
    if any(isinstance(part, ast.Name) and _BEAM.search(part.id) for part in walk(where.node)):
        return True
    target = where.node.target if isinstance(where.node, ast.For) else None
    unpacked = walk(target) if isinstance(target, ast.Tuple | ast.List) else ()
    parts = {part.id for part in unpacked if isinstance(part, ast.Name)}
    return any(_is_first(part, parts) or _is_first_result(part, parts) for part in walk(where.node))


def _is_first_result(node: ast.AST, parts: set[str]) -> bool:
    """``model(images.cuda())[0]``: the first sample, or the first of several results."""
    match node:
        case ast.Subscript(value=ast.Call(args=args), slice=ast.Constant(value=0)):
            return any(isinstance(part, ast.Name) and part.id in parts for one in args for part in walk(one))
    return False


def _is_first(node: ast.AST, parts: set[str]) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="squeeze"), args=[ast.Constant(value=0), *_]):
            return True
        case ast.Call(
            func=ast.Attribute(attr="squeeze"), keywords=[ast.keyword(arg="dim", value=ast.Constant(value=0))]
        ):
            return True
        case ast.Call(func=func, args=[_, ast.Constant(value=0)]) if last_name(func) == "squeeze":
            return True
        case ast.Subscript(value=base, slice=ast.Constant(value=0)):
            return _root(base) in parts
        case ast.Subscript(value=ast.Name(), slice=ast.Tuple(elts=[ast.Constant(value=0), *_])):
            return True
    return False


def _root(node: ast.expr) -> str:
    """The name that an expression takes its samples of: ``labels`` of ``labels.cpu().tolist()``."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr not in ("size", "dim"):
        node = node.func.value
    return node.id if isinstance(node, ast.Name) else ""


def _have_one_shape(project: Project, loader: Loader) -> bool:
    """Return whether something gives the samples of a loader one shape: a collate function, or what makes them."""
    if not loader_argument(project, loader, "collate_fn").is_absent:
        return True
    given = passed_as(loader.node, "dataset", 0)
    classes = project.fact(Resolver).classes_of(loader.module, given) if given is not None else []
    texts = [owner.syntax.source.text for owner, _ in classes]
    return any(map(_ONE_SHAPE.search, (loader.module.syntax.source.text, *texts)))
