"""The calls that lead from a training loop to a wait in a function: of which caller waits are judged together."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from gpulint import regex
from gpulint.placement.sync_points import SyncPoint
from gpulint.project import Project
from gpulint.training.guards import Guards
from gpulint.training.loop_contexts import LoopContext
from gpulint.training.phases import is_model_variant_branch, only_evaluates
from gpulint.workspace.module_index import ModuleIndex, NodeRef, last_name

MOST_CALLS = 2
"""Most other calls that are named."""
_SAVES = regex.compile(r"^_?(save|write|store)_\w*(checkpoint|ckpt|model|state|snapshot|weights)", re.IGNORECASE)


def of_one_caller(
    module: ModuleIndex, reached: Mapping[SyncPoint, tuple[LoopContext, ...]]
) -> Iterator[tuple[SyncPoint, LoopContext]]:
    """Yield each wait with one of the loops that reach it. Those of a function are of the caller in which most of them
    wait, as far as they do: what another caller passes may be on the host."""
    callers: dict[ast.AST | None, Counter[tuple[NodeRef, ...]]] = {}
    for sync, contexts in reached.items():
        counts = callers.setdefault(module.function(sync.node), Counter())
        counts.update({_way(context) for context in contexts})
    for sync, contexts in reached.items():
        if contexts:
            counts = callers[module.function(sync.node)]
            yield sync, max(contexts, key=lambda context: counts[_way(context)])


def other_calls(contexts: Iterable[LoopContext], context: LoopContext) -> Iterator[NodeRef]:
    """Yield the calls in the loop that lead to a wait the same way as a context does, but for its first call."""
    found = [
        other.calls[0]
        for other in contexts
        if context.calls
        and other.loop == context.loop
        and other.calls
        and other.calls[0] != context.calls[0]
        and other.calls[1:] == context.calls[1:]
        and isinstance(other.calls[0].node, ast.Call)
    ]
    yield from found[:MOST_CALLS]


def _way(context: LoopContext) -> tuple[NodeRef, ...]:
    return (context.loop, *context.calls)


def waits_below(module: ModuleIndex, sync: SyncPoint, context: LoopContext) -> list[tuple[ModuleIndex, ast.AST]]:
    """The primitive and the calls on the way to it, in the functions that the loop calls."""
    return [*((site.module, site.node) for site in context.calls[1:]), (module, sync.node)] if context.calls else []


def is_seldom_reached(project: Project, site: NodeRef, context: LoopContext, without_gradients: bool) -> bool:
    """Return whether a call on the way from the loop to the primitive is not made in every iteration, or not in
    training."""
    guards = project.fact(Guards)
    return (
        guards.is_periodic(site.module, site.node)
        or (without_gradients and guards.is_without_gradients(site.module, site.node))
        or guards.is_off_by_default(site.module, site.node, context.loop.node)
        or guards.is_error_path(site.module, site.node)
        or guards.is_debugging(site.module, site.node)
        or guards.answers_peer(site.module, site.node, context.loop.node)
        or guards.runs_once(site.module, site.node)
        or is_model_variant_branch(project, site.module, site.node)
        or only_evaluates(site.module, site.node)
    )


def writes_checkpoint(context: LoopContext) -> bool:
    """Return whether a call on the way saves the model. What it reads back is the checkpoint, however often it is
    written."""
    return any(isinstance(site.node, ast.Call) and _SAVES.search(last_name(site.node.func)) for site in context.calls)
