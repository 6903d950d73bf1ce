"""Copies of batches for which each step waits at its start, so that reads at the end of the step before cost little."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gpulint.placement.device_transfers import DeviceTransfers, Transfer
from gpulint.placement.host_to_device import HostToDevice
from gpulint.placement.sync_points import SyncPoint
from gpulint.project import Project
from gpulint.training.loop_contexts import LoopContext
from gpulint.workload.worker_supply import loads_in_process
from gpulint.workspace.module_index import ModuleIndex, NodeRef
from gpulint_rules.data.wait_counts import is_at_end


def waiting_copy(
    project: Project, module: ModuleIndex, found: Sequence[tuple[SyncPoint, LoopContext]]
) -> ast.expr | None:
    """The first of the copies of a loop, where all of them block, workers make the batches ahead, and the reads come
    after all work of the step: only what the host does between the two could overlap with the GPU."""
    loop = found[0][1].loop
    if any(context.calls for _, context in found) or not comes_from_workers(project, module, found):
        return None
    copies = _copies(project, module, loop)
    if any(copy.non_blocking for copy in copies) or not is_at_end(module, [sync for sync, _ in found], loop.node):
        return None
    return min((copy.node for copy in copies), key=lambda node: node.lineno)


def comes_from_workers(project: Project, module: ModuleIndex, found: Sequence[tuple[SyncPoint, LoopContext]]) -> bool:
    """Return whether the batches that a loop copies to the GPU are known to come from loaders with workers: the host
    has little to do that a wait would keep it from."""
    loop = found[0][1].loop
    if loop.module is not module:
        return False
    reads = (copy.batch_read for copy in _copies(project, module, loop))
    loaders = {one.node: one for read in reads if read is not None for one in read.loaders}
    return bool(loaders) and not any(loads_in_process(project, one) for one in loaders.values())


def _copies(project: Project, module: ModuleIndex, loop: NodeRef) -> list[Transfer]:
    """Return the copies of batches to the GPU in a loop."""
    copies = project.fact(DeviceTransfers).batch_transfers(module)
    return [one for one in copies if loop.node in module.syntax.ancestors(one.node)]


def pins(project: Project, module: ModuleIndex, copy: ast.expr | None) -> bool:
    """Return whether something is copied, and the loaders of it pin their batches."""
    moved = project.fact(DeviceTransfers).transfer_at(module, copy) if isinstance(copy, ast.Call) else None
    if moved is None or moved.batch_read is None:
        return False
    return all(project.fact(HostToDevice).is_pinned(one) is True for one in moved.batch_read.loaders)
