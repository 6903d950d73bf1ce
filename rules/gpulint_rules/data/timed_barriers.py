"""Places where the host waits for the GPU in order to measure how long a step takes, or how much memory."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.placement.sync_points import SyncPoint
from gpulint.semantic.path_conditions import conditions
from gpulint.training.cuda_tests import excludes_cuda
from gpulint.training.loop_contexts import LoopContext
from gpulint.values.clocks import CLOCKS
from gpulint.workspace.module_index import ModuleIndex, last_name

_TIMER = regex.compile(r"[Tt]imer|[Ss]top_?[Ww]atch")
_STEPS = frozenset({"backward", "step", "forward", "item", "cpu", "tolist"})
"""Calls that give the GPU work, or wait for it."""
MAX_BELOW = 4
"""Most statements between a barrier and the one that takes the time, with that one."""
_PEAKS = frozenset({"max_memory_allocated", "max_memory_reserved"})


def takes_time(module: ModuleIndex, barrier: ast.AST) -> bool:
    """Return whether a clock is read right before or after the statement of a barrier, or is started above it and not
    read until then, a timer's class or function waits, also right in a ``with`` of one, or a function waits to return
    the most memory in use."""
    owners = (module.class_of(barrier), module.function(barrier))
    if any(owner is not None and _TIMER.search(owner.name) for owner in owners):
        return True
    inner, up = barrier, module.syntax.parents.get(barrier)
    if isinstance(up, ast.With) and any(map(_is_timer, up.items)):
        return True
    while isinstance(up, ast.If) and [inner] in (up.body, up.orelse):
        inner, up = up, module.syntax.parents.get(up)  # ``if device == "mps": ... elif device == "cuda":``
    for body in (getattr(up, "body", None), getattr(up, "orelse", None), getattr(up, "finalbody", None)):
        if isinstance(body, list) and inner in body:
            at = body.index(inner)
            beside = (*body[max(at - 1, 0) : at], *body[at + 1 : at + 2])
            return (
                _starts_clock(body[:at])
                or _stops_clock(body[at + 1 : at + 1 + MAX_BELOW])
                or any(
                    isinstance(part, ast.Call)
                    and last_name(part.func) in (CLOCKS | _PEAKS if isinstance(one, ast.Return) else CLOCKS)
                    for one in beside
                    for part in walk(one)
                )
            )
    return False


def times_step(module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a call is a barrier that is there to take the time."""
    if not isinstance(node, ast.Call) or last_name(node.func) != "synchronize":
        return False
    return takes_time(module, next((up for up in module.syntax.ancestors(node) if isinstance(up, ast.stmt)), node))


def takes_time_beside(module: ModuleIndex, waits: Iterable[ast.expr], sync: SyncPoint, context: LoopContext) -> bool:
    """Return whether one of some waits is a barrier that takes the time in each round that gets to a read."""
    loop, beside = context.loop.node, context.calls[0].node if context.calls else sync.node
    known = {(id(test), holds) for test, holds in conditions(module, beside, loop)}
    return any(
        times_step(module, wait)
        and all(
            (id(test), holds) in known or excludes_cuda(module, test, not holds)
            for test, holds in conditions(module, wait, loop)
        )
        for wait in waits
    )


def _starts_clock(above: Sequence[ast.stmt]) -> bool:
    """Return whether some statements start a clock and do not read it: ``began = time.time()``."""
    for at, statement in enumerate(above):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=func, args=[])) if (
                last_name(func) in CLOCKS
            ):
                later = (part for one in above[at + 1 :] for part in walk(one))
                if not any(isinstance(part, ast.Name) and part.id == name for part in later):
                    return True
    return False


def _stops_clock(below: Sequence[ast.stmt]) -> bool:
    """Return whether one of some statements takes the time since another, and none before it runs a step:
    ``batch_time.update(time.time() - end)``."""
    for statement in below:
        parts = [part for part in walk(statement) if isinstance(part, ast.BinOp | ast.Call)]
        if any(
            isinstance(part, ast.BinOp)
            and isinstance(part.op, ast.Sub)
            and isinstance(part.left, ast.Call)
            and last_name(part.left.func) in CLOCKS
            for part in parts
        ):
            return True
        if any(isinstance(part, ast.Call) and last_name(part.func) in _STEPS for part in parts):
            return False
    return False


def _is_timer(item: ast.withitem) -> bool:
    """``with Timer("step"):``."""
    made = item.context_expr
    return _TIMER.search(last_name(made.func if isinstance(made, ast.Call) else made)) is not None
