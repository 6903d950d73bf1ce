"""How many rounds a loop has at most, where the program says so: its range, or the samples of its loader."""

from __future__ import annotations

import ast

from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.bounded_loops import most_counted
from gpulint.training.loader_calls import Loader, loader_argument
from gpulint.training.loader_flow import LoaderFlow
from gpulint.training.loop_iterables import unwrap_iterable
from gpulint.values.constants import Constants
from gpulint.workload.sample_counts import most_samples
from gpulint.workspace.module_index import LOOPS, LoopNode, ModuleIndex, NodeRef, last_name

_LARGE = 256
"""Samples of a batch from which on a data set of some thousand samples has few batches."""


@query
def most_rounds(project: Project, module: ModuleIndex, loop: LoopNode) -> int:
    """Return the most rounds that one pass of a loop has; 0 if that is unknown."""
    if not isinstance(loop, ast.For):
        return 0
    known = [count for count in (_rounds(project, module, loop), most_counted(project, NodeRef(module, loop))) if count]
    return min(known, default=0)


def _rounds(project: Project, module: ModuleIndex, loop: ast.For) -> int:
    """The rounds of a loop that nothing leaves."""
    match unwrap_iterable(loop.iter):
        case ast.Call(func=function, args=[stop] | [ast.Constant(value=0 | 1), stop]) if last_name(function) == "range":
            return max(_numbers(project, module, stop), default=0)
        case source:
            counts = [_batches(project, loader) for loader in project.fact(LoaderFlow).loaders_of(module, source)]
            return max(counts, default=0) if all(counts) else 0


def is_single_run(project: Project, module: ModuleIndex, loop: LoopNode) -> bool:
    """Return whether a loop over a range runs once: not within another loop, nor in a function that one calls."""
    source = unwrap_iterable(loop.iter) if isinstance(loop, ast.For) else None
    if not isinstance(source, ast.Call) or any(isinstance(up, LOOPS) for up in module.syntax.ancestors(loop)):
        return False
    function = module.function(loop)
    if function is None or isinstance(function, ast.Lambda):
        return function is None
    sites = project.fact(Resolver).first_sites(module, function)
    return bool(sites) and not any(
        isinstance(up, LOOPS) for site in sites for up in site.module.syntax.ancestors(site.node)
    )


def may_be_short(project: Project, module: ModuleIndex, loop: LoopNode) -> bool:
    """Return whether a loop takes batches so large that the samples of many data sets fill a few of them."""
    if not isinstance(loop, ast.For):
        return False
    for loader in project.fact(LoaderFlow).loaders_of(module, unwrap_iterable(loop.iter)):
        argument = loader_argument(project, loader, "batch_size")
        known = (project.fact(Constants).of(ref.module, ref.node) for ref in argument.refs)
        sizes = [value for one in known for value in one.constants if isinstance(value, int)]
        if sizes and min(sizes) >= _LARGE and not most_samples(project, loader):
            return True
    return False


def _batches(project: Project, loader: Loader) -> int:
    samples, argument = most_samples(project, loader), loader_argument(project, loader, "batch_size")
    sizes = [_numbers(project, ref.module, ref.node) for ref in argument.refs if isinstance(ref.node, ast.expr)]
    if not samples or argument.unknown or not sizes or not all(sizes):
        return 0
    return -(-samples // min(min(size) for size in sizes))


def _numbers(project: Project, module: ModuleIndex, node: ast.expr) -> list[int]:
    """The positive numbers that an expression may be; none if one is not known."""
    known = project.fact(Constants).of(module, node)
    numbers = [value for value in known.constants if isinstance(value, int) and value > 0]
    return numbers if known.complete and len(numbers) == len(known.values) else []
