"""Whether workers make the batches of a loop, so that a wait keeps the host from little."""

from __future__ import annotations

from collections.abc import Sequence

from gpulint.placement.device_transfers import DeviceTransfers
from gpulint.placement.sync_points import SyncPoint
from gpulint.project import Project
from gpulint.training.loop_contexts import LoopContext
from gpulint.workload.worker_supply import loads_in_process
from gpulint.workspace.module_index import ModuleIndex


def comes_from_workers(project: Project, module: ModuleIndex, found: Sequence[tuple[SyncPoint, LoopContext]]) -> bool:
    """Return whether the batches that a loop copies to the GPU come from loaders that are not known to load in the
    training process."""
    loop = found[0][1].loop
    if loop.module is not module:
        return False
    loaders = {
        loader.node: loader
        for copy in project.fact(DeviceTransfers).batch_transfers(module)
        if copy.batch_read is not None and loop.node in module.syntax.ancestors(copy.node)
        for loader in copy.batch_read.loaders
    }
    return bool(loaders) and not any(loads_in_process(project, one) for one in loaders.values())
