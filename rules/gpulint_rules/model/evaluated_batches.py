"""Evaluations whose batches are all of one shape, as far as is known, so that each can use the memory of the last."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.placement.batch_flow import BatchFlow
from gpulint.project import Project
from gpulint.training.bounded_loops import reads_few_batches
from gpulint.training.generation import generates
from gpulint.training.loader_calls import Loader, loader_argument
from gpulint.training.loop_contexts import LoopContext, LoopContexts
from gpulint.training.trials import MEASURES
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import last_name

_OTHERS = MEASURES | {"backward", "grad"}
"""Calls that speak of something other than an evaluation."""


def evaluates_batches(project: Project, context: LoopContext) -> bool:
    """Return whether an evaluation draws more than a few batches of several samples from a loader, of which it neither
    generates text nor takes gradients, and measures no memory. Single samples may differ in size, as generated texts
    do."""
    module, loop = context.loop.module, context.loop.node
    if not isinstance(loop, ast.For) or not project.fact(LoopContexts).over_loader(module, loop):
        return False
    if reads_few_batches(project, context.loop):
        return False
    region = module.function(loop) or loop
    if any(isinstance(part, ast.Call) and _differs(part) for part in walk(region)):
        return False
    read = project.fact(BatchFlow).batch_read(module, loop)
    return read is not None and bool(read.loaders) and not any(_may_be_single(project, one) for one in read.loaders)


def _differs(call: ast.Call) -> bool:
    return generates(call) or last_name(call.func) in _OTHERS


def _may_be_single(project: Project, loader: Loader) -> bool:
    """Return whether the batches of a loader may be of one sample."""
    size = loader_argument(project, loader, "batch_size")
    if size.is_absent:
        return loader_argument(project, loader, "batch_sampler").is_absent
    return any(project.fact(Constants).of(ref.module, ref.node).any(lambda value: value == 1) for ref in size.refs)
