"""Loops that count to a small number: ``for _ in range(10)``, ``if step == 10: break``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpulint.placement.batch_flow import BatchFlow
from gpulint.training.bounded_loops import stops_within
from gpulint.training.loop_contexts import LoopContexts
from gpulint.training.loop_roles import Role
from gpulint.workspace.module_index import LOOPS, NodeRef

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.project import Project

FEW_STEPS = 100
"""Most steps of a loop that matters little, where nothing runs it again (assumed: seconds)."""
FEW_SAMPLES = 16
"""Most samples of a loop that looks at a few."""


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
