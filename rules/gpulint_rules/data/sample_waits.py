"""Samples that a data set computes on the GPU and reads back, in the process that trains: each of them waits, so that
the other reads of a step find the queue empty."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gpulint.placement.device_transfers import DeviceTransfers
from gpulint.placement.repeated_devices import repeats_device
from gpulint.placement.sync_points import SyncPoint
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_calls import Loader
from gpulint.training.loop_contexts import LoopContext
from gpulint.workload.dataset_work import sets_of
from gpulint.workload.worker_supply import loads_in_process
from gpulint.workspace.module_index import FUNCTIONS, NodeRef, last_name
from gpulint_rules.data.worker_batches import loaders_of

_READS = frozenset({"cpu", "item", "tolist", "numpy"})
_CALLS = 3
"""Calls through which it is looked for what computes a sample."""


def wait_in_samples(project: Project, found: Sequence[tuple[SyncPoint, LoopContext]]) -> NodeRef | None:
    """Return the read with which ``__getitem__`` of the data set of a loop, or a function that it calls, waits for what
    the GPU computed of a sample."""
    loaders = loaders_of(project, found[0][1].loop)
    waits = [_wait_of(project, loader) for loader in loaders]
    return waits[0] if waits and None not in waits else None


@query
def _wait_of(project: Project, loader: Loader) -> NodeRef | None:
    if not loads_in_process(project, loader):
        return None
    resolver = project.fact(Resolver)
    for source in sets_of(project, loader):
        assert isinstance(source.node, ast.expr)
        for where, owner in resolver.classes_of(source.module, source.node):
            getter = resolver.method(where, owner, "__getitem__")
            if getter is not None and (read := _read_in(project, getter, _CALLS)) is not None:
                return read
    return None


@query
def _read_in(project: Project, function: NodeRef, depth: int) -> NodeRef | None:
    """Return where a function, or one that it calls, reads what it has moved to the GPU:
    ``decoder(z.to(device)).cpu()``."""
    module, body = function.module, function.node
    if not isinstance(body, FUNCTIONS):
        return None
    calls, transfers = module.calls_of(body), project.fact(DeviceTransfers)
    moved = [
        move.node.lineno
        for call in calls
        if (move := transfers.transfer_at(module, call)) is not None
        and move.to_gpu
        and not any(repeats_device(body, target) for target in move.targets)
    ]
    for call in calls if moved else ():
        if last_name(call.func) in _READS and not call.args and call.lineno >= min(moved):
            return NodeRef(module, call)
    for call in calls if depth else ():
        for called in project.fact(Resolver).callees(module, call):
            if (read := _read_in(project, NodeRef(called.module, called.node), depth - 1)) is not None:
                return read
    return None
