"""Copies to the GPU in the rounds of an inner loop, each of which waits for its end: ``mask[i].to(device)``."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from gpulint.placement.device_transfers import DeviceTransfers
from gpulint.placement.sync_points import SyncPoint
from gpulint.project import Project
from gpulint.training.guards import Guards
from gpulint.training.loop_contexts import LoopContext
from gpulint.workspace.module_index import ModuleIndex
from gpulint_rules.data.wait_counts import calls_model, inner_loops


def copies_beside(
    project: Project, module: ModuleIndex, found: Sequence[tuple[SyncPoint, LoopContext]]
) -> Iterator[ast.expr]:
    """Yield the copies of parts of a batch in the innermost loops of some reads, inside of the step."""
    around = (inner_loops(module, sync.node, context.loop.node)[:1] for sync, context in found)
    for rounds in dict.fromkeys(inner for inners in around for inner in inners):
        yield from copies_in(project, module, rounds)


def copies_in(project: Project, module: ModuleIndex, rounds: ast.AST) -> Iterator[ast.expr]:
    """Yield the copies of parts of a batch that each round of a loop makes and waits for. Rounds that run a model are
    steps themselves, whose batches have to come."""
    if calls_model(rounds):
        return
    guards, function = project.fact(Guards), module.function(rounds)
    for move in project.fact(DeviceTransfers).batch_transfers(module):
        inside = rounds in module.syntax.ancestors(move.node) and module.function(move.node) is function
        if not inside or move.non_blocking or rounds not in inner_loops(module, move.node, module.syntax.tree):
            continue
        if not guards.is_periodic(module, move.node) and not guards.is_off_by_default(module, move.node, rounds):
            yield move.node
