"""Copies of evaluation batches with which nothing would overlap, however they are done."""

from __future__ import annotations

from collections.abc import Iterable

from gpulint.placement.device_transfers import DeviceTransfers
from gpulint.placement.host_to_device import HostToDevice
from gpulint.project import Project
from gpulint.query import query
from gpulint.training.loader_calls import Loader
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.workload.worker_supply import loads_in_process
from gpulint.workspace.module_index import LOOPS, NodeRef
from gpulint_rules.data.step_waits import waiting_line


def overlaps_nothing(project: Project, loaders: Iterable[Loader]) -> bool:
    """Return whether nothing goes on while the batches of some loaders are copied: the loaders neither pin memory nor
    have workers, and each batch of the loops, all of which evaluate, ends in a wait for the GPU.

    In training, the waits themselves are worth a fix first.
    """
    loaders = list(loaders)
    return bool(loaders) and all(_is_vain(project, one) for one in loaders)


@query
def _is_vain(project: Project, loader: Loader) -> bool:
    if project.fact(HostToDevice).is_pinned(loader) is not False or not loads_in_process(project, loader):
        return False
    reads = [transfer.batch_read for transfer in project.fact(DeviceTransfers).transfers_of(loader)]
    if not reads or None in reads:
        return False
    return all(_evaluates(project, where) for where in dict.fromkeys(read.where for read in reads if read is not None))


def _evaluates(project: Project, loop: NodeRef) -> bool:
    """Return whether a loop evaluates, and waits for the GPU in each round."""
    if not isinstance(loop.node, LOOPS):
        return False
    role = project.fact(LoopContexts).role(loop.module, loop.node)
    return role is Role.EVAL and waiting_line(project, loop) is not None
