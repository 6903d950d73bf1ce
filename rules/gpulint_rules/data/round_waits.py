"""Waits that each round of a loop inside the step needs, in which the reads are: of each sample, of each task."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gpulint.documents.python import walk
from gpulint.placement.sync_points import SyncPoint
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.training.loop_contexts import LoopContext
from gpulint.training.loop_roles import Role
from gpulint.workspace.module_index import LOOPS, ModuleIndex, NodeRef
from gpulint_rules.data.called_waits import called_wait, wait_for_samples
from gpulint_rules.data.sample_loops import passes_samples
from gpulint_rules.data.wait_counts import calls_model, inner_loops, is_over_parameters

_MAKES = frozenset({"torch.tensor", "torch.as_tensor"})
"""Functions that make a tensor of numbers of the host, and wait for its copy to the GPU."""


def wait_in_rounds(
    project: Project,
    module: ModuleIndex,
    deep: Sequence[SyncPoint],
    found: Sequence[tuple[SyncPoint, LoopContext]],
    needed: frozenset[ast.AST],
) -> NodeRef | None:
    """Return what waits in each round of the inner loop that all the ``deep`` reads are in, and that runs the model: a
    copy of numbers to the GPU, a metric that looks at what it is given; or for each sample in what the loop calls, if
    no read is of a sample itself."""
    loop, saved = found[0][1].loop, frozenset(sync.node for sync, _ in found) - needed
    if any(context.calls for _, context in found):
        return None
    matched = None
    if found[0][1].role is Role.STEP and _are_as_many(module, deep, loop.node, of_samples=False):
        matched = wait_for_samples(project, loop.module, loop.node, saved)
    return matched or _wait_beside_model(project, module, deep, loop.node, saved)


def _are_as_many(module: ModuleIndex, deep: Sequence[SyncPoint], loop: ast.AST, of_samples: bool = True) -> bool:
    """Return whether reads in inner loops are about as many as the samples of a batch, at most: one for each weight of
    the model, or ``of_samples`` themselves."""
    return all(
        len(around) == 1 and (is_over_parameters(around[0]) or (of_samples and passes_samples(module, around[0])))
        for around in (inner_loops(module, sync.node, loop) for sync in deep)
    )


def waits_for_samples(module: ModuleIndex, node: ast.AST | None, deep: Sequence[SyncPoint], loop: ast.AST) -> bool:
    """Return whether a place waits for each sample of a batch, and so at least about as often as the reads beside."""
    around = inner_loops(module, node, loop) if node is not None else []
    return any(passes_samples(module, up) for up in around) and _are_as_many(module, deep, loop)


def _wait_beside_model(
    project: Project, module: ModuleIndex, deep: Sequence[SyncPoint], loop: ast.AST, saved: frozenset[ast.AST]
) -> NodeRef | None:
    around = {next((up for up in inner_loops(module, sync.node, loop)), None) for sync in deep}
    rounds = around.pop() if len(around) == 1 else None
    if not isinstance(rounds, LOOPS) or not calls_model(rounds):
        return None
    first = deep[0].node
    copy = _copied_numbers(project, module, rounds, frozenset((id(t), h) for t, h in conditions(module, first, rounds)))
    return copy or called_wait(project, module, rounds, first, saved)


@query
def _copied_numbers(
    project: Project, module: ModuleIndex, rounds: ast.AST, known: frozenset[tuple[int, bool]]
) -> NodeRef | None:
    """``torch.tensor([index], device=device)``"""
    resolver = project.fact(Resolver)
    for call in (part for part in walk(rounds) if isinstance(part, ast.Call)):
        device = next((keyword.value for keyword in call.keywords if keyword.arg == "device"), None)
        if device is None or (isinstance(device, ast.Constant) and device.value in (None, "cpu")):
            continue
        if not resolver.call_names(module, call) & _MAKES:
            continue
        if {(id(test), holds) for test, holds in conditions(module, call, rounds)} <= known:
            return NodeRef(module, call)
    return None
