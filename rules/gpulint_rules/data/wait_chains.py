"""What else waits in the functions that a training loop calls, or that the functions of its reads call."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gpulint.placement.sync_points import SyncKind, SyncPoint
from gpulint.project import Project
from gpulint.training.guards import Guards
from gpulint.training.loop_contexts import LoopContext
from gpulint.training.loop_roles import Role
from gpulint.workspace.module_index import ModuleIndex, NodeRef
from gpulint_rules.data.called_waits import called_wait
from gpulint_rules.data.read_uses import use_of_read
from gpulint_rules.data.repeated_waits import times_called

MAX_FUNCTIONS = 4
"""Most functions with reads of one loop whose calls are looked into."""


def wait_in_calls(
    project: Project,
    module: ModuleIndex,
    found: Sequence[tuple[SyncPoint, LoopContext]],
    needed: frozenset[ast.AST],
    outside: ModuleIndex | None = None,
) -> NodeRef | None:
    """Return what else waits for a value in each round of the loop, in what it calls, or in what the function of the
    reads calls."""
    sync, context = found[0]
    if context.role is not Role.STEP:
        return None
    beside = context.calls[0].node if context.calls else sync.node
    saved = frozenset(sync.node for sync, _ in found) - needed
    found_in_loop = called_wait(project, context.loop.module, context.loop.node, beside, saved, False, outside)
    if found_in_loop is not None:
        return found_in_loop
    for function, inside in _functions_of(project, module, found).items():
        if (below := called_wait(project, module, function, inside, saved, True, outside)) is not None:
            return below
    return None


def _functions_of(
    project: Project, module: ModuleIndex, found: Sequence[tuple[SyncPoint, LoopContext]]
) -> dict[ast.AST, ast.expr]:
    """Return the functions that the loop calls in which reads are, each with its first read: that of the first read,
    and those that each round gets to."""
    guards, functions = project.fact(Guards), dict[ast.AST, ast.expr]()
    for at, (sync, context) in enumerate(found):
        function = module.function(sync.node) if context.calls else None
        calls = context.calls if at and function not in functions else ()
        always = not any(guards.is_conditional(call.module, call.node, context.loop.node) for call in calls)
        if function is not None and always and len(functions) < MAX_FUNCTIONS:
            functions.setdefault(function, sync.node)
    return functions


def read_in_calls(
    project: Project, module: ModuleIndex, found: Sequence[tuple[SyncPoint, LoopContext]], needed: frozenset[ast.AST]
) -> NodeRef | None:
    """Return a read of any value that each round of the loop does in another module. It is no reason where the host
    computes with copies while the GPU waits, or the step calls the function of the reads several times."""
    if any(_works(module, sync) or times_called(context) > 1 for sync, context in found):
        return None
    return wait_in_calls(project, module, found, needed, module)


def _works(module: ModuleIndex, sync: SyncPoint) -> bool:
    """Return whether the host computes with a copy of a tensor while the GPU waits."""
    return sync.kind is SyncKind.READ and use_of_read(module, sync.node) in ("computes", "handled")
