"""Places where the host waits for the GPU in order to measure how long a step takes, or how much memory."""

from __future__ import annotations

import ast

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.workspace.module_index import ModuleIndex, last_name

_TIMER = regex.compile(r"[Tt]imer|[Ss]top_?[Ww]atch")
_CLOCKS = frozenset({"time", "perf_counter", "perf_counter_ns", "monotonic", "default_timer", "elapsed_time"})
_PEAKS = frozenset({"max_memory_allocated", "max_memory_reserved"})


def takes_time(module: ModuleIndex, barrier: ast.AST) -> bool:
    """Return whether a clock is read right before or after the statement of a barrier, a timer's class or function
    waits, also right in a ``with`` of one, or a function waits to return the most memory in use."""
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
            return any(
                isinstance(part, ast.Call)
                and last_name(part.func) in (_CLOCKS | _PEAKS if isinstance(one, ast.Return) else _CLOCKS)
                for one in beside
                for part in walk(one)
            )
    return False


def _is_timer(item: ast.withitem) -> bool:
    """``with Timer("step"):``."""
    made = item.context_expr
    return _TIMER.search(last_name(made.func if isinstance(made, ast.Call) else made)) is not None
