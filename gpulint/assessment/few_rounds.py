"""Loops that count to a small number: ``for _ in range(10)``, ``if step == 10: break``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.placement.batch_flow import BatchFlow
from gpulint.training.bounded_loops import stops_within
from gpulint.training.counted_places import is_at_count
from gpulint.training.guards import Guards
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import LOOPS, NodeRef

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

FEW_STEPS = 100
"""Most steps of a loop that matters little, where nothing runs it again (assumed: seconds)."""
FEW_SAMPLES = 16
"""Most samples of a loop that looks at a few."""
FEW_AGAIN = 8
"""Most batches of an evaluation whose forward passes take no time beside the steps between two (assumed)."""


def takes_few_steps(subject: Subject) -> bool:
    """Return whether the training loop around counts to a small number, and runs once."""
    module, node = subject.module, subject.node
    contexts = [context for context in subject.contexts if context.role is Role.STEP]
    return (
        module is not None
        and node is not None
        and bool(contexts)
        and all(_is_short(subject.project, context.loop, FEW_STEPS) for context in contexts)
    )


def looks_at_few(subject: Subject) -> bool:
    """Return whether the only loop around the place, or the place itself, counts to a small number, and runs once."""
    module, node = subject.module, subject.node
    if module is None or node is None:
        return False
    loops = [*subject.project.fact(LoopContexts).around(module, node), *([node] if isinstance(node, LOOPS) else [])]
    return len(loops) == 1 and _is_short(subject.project, NodeRef(module, loops[0]), FEW_SAMPLES)


def evaluates_few(subject: Subject) -> bool:
    """Return whether the loop of an evaluation runs a model on a small number of batches, now and then: it stops after
    them, or all that it does is under ``if i < 5``, or the model under ``if i == 0``."""
    module, loop = subject.module, subject.node
    if module is None or not isinstance(loop, ast.For | ast.AsyncFor):
        return False
    done_at = subject.cost.done_at if subject.cost is not None else None
    if not (
        stops_within(subject.project, NodeRef(module, loop), FEW_AGAIN)
        or _skips(subject.project, module, loop)
        or (done_at is not None and is_at_count(done_at.module, done_at.node, loop))
    ):
        return False
    contexts, guards = subject.project.fact(LoopContexts), subject.project.fact(Guards)
    function = module.function(loop)
    around = contexts.enclosing_loops_of_function(module, function) if function is not None else ()
    return next(contexts.around(module, loop), None) is None and all(
        context.role is not Role.STEP or any(guards.is_periodic(site.module, site.node) for site in context.calls)
        for context in around
    )


def _skips(project: Project, module: ModuleIndex, loop: ast.For | ast.AsyncFor) -> bool:
    """Return whether a loop does nothing once the count of its ``enumerate`` has reached a small number."""
    match loop.target, loop.iter, loop.body:
        case (
            ast.Tuple(elts=[ast.Name(id=count), *_]),
            ast.Call(func=ast.Name(id="enumerate")),
            [
                ast.If(
                    test=ast.Compare(left=ast.Name(id=name), ops=[ast.Lt() | ast.LtE()], comparators=[limit]), orelse=[]
                )
            ],
        ):
            known = project.fact(Constants).of(module, limit)
            return name == count and known.every(lambda value: isinstance(value, int) and value <= FEW_AGAIN)
    return False


def draws_few(subject: Subject) -> bool:
    """Return whether each loop over a loader stops after a small number of batches, and runs once."""
    loader = subject.cost.loader if subject.cost is not None else None
    reads = subject.project.fact(BatchFlow).of_loader(loader.module, loader.node) if loader is not None else ()
    return bool(reads) and all(_is_short(subject.project, read.where, FEW_STEPS) for read in reads)


def _is_short(project: Project, loop: NodeRef, few: int) -> bool:
    module, node = loop.module, loop.node
    if not stops_within(project, loop, few):
        return False
    contexts, function = project.fact(LoopContexts), module.function(node)
    if next(contexts.around(module, node), None) is not None:
        return False
    return function is None or not contexts.enclosing_loops_of_function(module, function)
