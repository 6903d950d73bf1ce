"""Whether workers make the batches of a loop, so that a wait keeps the host from little."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from gpulint.placement.batch_flow import BatchFlow, BatchRead
from gpulint.placement.device_transfers import DeviceTransfers
from gpulint.placement.sync_points import SyncPoint
from gpulint.project import Project
from gpulint.training.loader_calls import Loader
from gpulint.training.loop_contexts import LoopContext
from gpulint.workload.worker_supply import loads_in_process
from gpulint.workspace.module_index import LOOPS, ModuleIndex, NodeRef


def comes_from_workers(project: Project, module: ModuleIndex, found: Sequence[tuple[SyncPoint, LoopContext]]) -> bool:
    """Return whether the batches that a loop copies to the GPU, or has copied elsewhere (by Accelerate, by a function
    that it calls), come from loaders that are not known to load in the training process."""
    loop = found[0][1].loop
    if loop.module is not module:
        return False
    loaders = loaders_of(project, loop)
    return bool(loaders) and not any(loads_in_process(project, one) for one in loaders)


def loaders_of(project: Project, loop: NodeRef) -> list[Loader]:
    """Return the loaders whose batches a loop copies to the GPU, or goes through."""
    module = loop.module
    copied = {
        loader.node: loader
        for copy in project.fact(DeviceTransfers).batch_transfers(module)
        if copy.batch_read is not None and loop.node in module.syntax.ancestors(copy.node)
        for loader in copy.batch_read.loaders
    }
    return [*copied.values()] or [*_drawn_from(project, module, loop.node)]


def _drawn_from(project: Project, module: ModuleIndex, loop: ast.AST) -> Iterator[Loader]:
    """The loaders that a loop goes through, or takes its batches from with ``next``."""
    flow = project.fact(BatchFlow)
    draws: list[BatchRead | None] = [flow.batch_read(module, loop)] if isinstance(loop, LOOPS) else []
    draws += (
        flow.batch_of(module, call)
        for call in module.calls_by_name.get("next", ())
        if loop in module.syntax.ancestors(call)
    )
    for draw in draws:
        yield from draw.loaders if draw is not None else ()
