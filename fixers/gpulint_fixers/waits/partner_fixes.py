"""Fixes of one step that gain nothing alone: right beside one wait, with no work for the GPU between, stands another
one, which waits for the same queue."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.documents.python import walk
from gpulint.finding import Finding
from gpulint.fix import TOGETHER, Declined, Fix, Safety
from gpulint.query import query
from gpulint.source import in_words
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, BindingKind, ModuleIndex, last_name
from gpulint_fixers.waits.step_tests import is_optimizer_step

_HOLDS = frozenset({BindingKind.ASSIGN, BindingKind.PARAMETER})


def with_partners(found: HostWait, made: Fix, others: Iterable[tuple[Finding, Fix | Declined]]) -> Fix:
    """Return the unsafe fix of a wait, whose description names those that it helps together with."""
    if made.safety is Safety.SAFE or TOGETHER in made.description:
        return made
    beside = [one for one, fixed in others if isinstance(fixed, Fix) and not set(fixed.edits) <= set(made.edits)]
    near = [one for one in beside if one.span.cell is None and _is_near(found, one.payload)]
    if not near:
        return made
    return replace(made, description=f"{made.description}; {TOGETHER} {fixes_of(found, near)}")


def fixes_of(found: HostWait, others: Iterable[Finding]) -> str:
    """``the fixes of lines 12 and 14``; ``the other fix of line 12`` where one is in the line of the wait itself."""
    lines = {(one.span.cell or 0, one.span.line): one.span for one in others}
    own = found.module.syntax.span(found.syncs[0].node)
    which = "other " if (own.cell or 0, own.line) in lines else ""
    return f"the {which}fix{'es' if len(lines) > 1 else ''} of {in_words([lines[key] for key in sorted(lines)])}"


def _is_near(found: HostWait, other: object) -> bool:
    """Return whether both waits are in the same round of the same loop, and nothing between is work for the GPU."""
    if not isinstance(other, HostWait) or other.module is not found.module or other.context.calls:
        return False
    first, second = sorted((found.statement, other.statement), key=lambda one: one.lineno)  # type: ignore[attr-defined]
    loop = found.context.loop.node
    if any(_innermost_loop(found.module, one) is not loop for one in (first, second)):
        return False
    return not any(
        first.end_lineno < line < second.lineno  # type: ignore[attr-defined]
        for line in _work(found.module, loop)
    )


def _innermost_loop(module: ModuleIndex, statement: ast.AST) -> ast.AST | None:
    return next((up for up in module.syntax.ancestors(statement) if isinstance(up, LOOPS)), None)


@query
def _work(module: ModuleIndex, loop: ast.AST) -> tuple[int, ...]:
    """The lines of a loop in which the GPU gets work: backward passes, steps of an optimizer and calls of models."""
    return tuple(part.lineno for part in walk(loop) if isinstance(part, ast.Call) and _is_work(module, part))


def _is_work(module: ModuleIndex, call: ast.Call) -> bool:
    if last_name(call.func) == "backward" or is_optimizer_step(call):
        return True
    match call.func:
        case ast.Name(id=name):
            bound = module.scope(call).lookup(name)
            return bool(bound) and all(one.kind in _HOLDS or _trains(one.node) for one in bound)
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            owner = module.class_of(call)
            methods = (part for part in owner.body if isinstance(part, ast.FunctionDef)) if owner else ()
            return bool(call.args) and all(part.name != name for part in methods)
    return False


def _trains(node: ast.AST) -> bool:
    """Return whether a function has a backward pass or a step of an optimizer."""
    calls = [part for part in walk(node) if isinstance(part, ast.Call)] if isinstance(node, FUNCTIONS) else []
    return any(last_name(call.func) == "backward" or is_optimizer_step(call) for call in calls)


def as_safe_as(found: HostWait, made: Fix, others: Iterable[tuple[Finding, Fix | Declined]]) -> Fix:
    """The fix, unsafe if one of those that it helps together with is."""
    others = list(others)
    unsafe = [one for one, fixed in others if isinstance(fixed, Fix) and _is_unsafe(fixed)]
    if made.safety is not Safety.SAFE or not unsafe:
        return made
    told = {fixed.description.partition("; ")[2] for _, fixed in others if isinstance(fixed, Fix) and _is_unsafe(fixed)}
    why = next(iter(told)) if len(told) == 1 else ""
    text = f"{TOGETHER} {fixes_of(found, unsafe)}" + (f" ({why})" if why else ", which may change results")
    return replace(made, safety=Safety.UNSAFE, description=f"{made.description}; {text}")


def _is_unsafe(fix: Fix) -> bool:
    return fix.safety is not Safety.SAFE
