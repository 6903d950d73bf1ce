"""Loops and training steps that nobody has finished: a debugger stops them, and nothing uses what they make."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.loop_contexts import LoopContexts
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, last_name

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

_IDLE = (ast.Pass, ast.Import, ast.ImportFrom, ast.Break, ast.Continue, ast.Raise)
_CHANGES_NOTHING = frozenset({"zero_grad", "train", "eval", "print", "synchronize", "to", "cuda", "exit"})
"""Calls whose effect is of no use once the program ends without a step."""
_MAKES = frozenset({"range", "enumerate", "len", "next", "iter", "zip", "to", "cuda"})
"""Calls that only get at a batch."""
_ACTS = regex.compile(
    r"(^|_)(steps?|train\w*|fit|updates?|run|optimi[sz]e|backward|learn|save|write|dump|log|append|add|put|push)(_|$)",
    re.IGNORECASE,
)
"""Names of calls that may update weights or keep a result."""


@query
def stops_unfinished_loop(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a debugger stops each round of a loop, or of a training step that a framework calls, which does
    nothing else than to set variables, and nothing reads these behind it."""
    for up in module.syntax.ancestors(node):
        if isinstance(up, LOOPS):
            body = _makes(up.body) and _only_sets(up.body, node) and not _takes_steps(project, module, up)
            return body and not _is_read_after(module, up) and not _is_carried(up)
        if isinstance(up, FUNCTIONS):
            hooked = any(project.fact(LoopContexts).hooks(module, up))
            body = _makes(up.body) and _only_sets(up.body, node)
            return hooked and body and not _takes_steps(project, module, up)
        if isinstance(up, ast.stmt) and not isinstance(up, ast.Expr | ast.With | ast.AsyncWith):
            return False
    return False


def _makes(body: list[ast.stmt]) -> bool:
    """Return whether a block calls anything to make a value."""
    values = (one.value for one in _statements(body) if isinstance(one, ast.Assign | ast.AnnAssign) and one.value)
    calls = (part for value in values for part in walk(value) if isinstance(part, ast.Call))
    return any(last_name(call.func) not in _MAKES for call in calls)


def _only_sets(body: list[ast.stmt], node: ast.AST) -> bool:
    """Return whether a block does nothing but to set variables, beside the debugger ``node``."""
    return all(one in (node, getattr(one, "value", None)) or _is_idle(one, node) for one in _statements(body))


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a block and of the blocks in it."""
    for one in body:
        if isinstance(one, ast.If | ast.With | ast.AsyncWith | ast.For | ast.While):
            yield from _statements(one.body)
            yield from _statements(getattr(one, "orelse", []))
        else:
            yield one


def _is_idle(statement: ast.stmt, node: ast.AST) -> bool:
    match statement:
        case ast.Assign(targets=targets):
            return all(_is_variable(target) for target in targets)
        case ast.AnnAssign(target=target):
            return _is_variable(target)
        case ast.Expr(value=ast.Call(func=func) as call):
            shows = last_name(func) == "print" and statement.lineno > getattr(node, "lineno", 0)
            return call is node or (last_name(func) in _CHANGES_NOTHING and not shows)
        case ast.Expr(value=ast.Constant()):
            return True
    return isinstance(statement, _IDLE)


def _is_variable(target: ast.expr) -> bool:
    match target:
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return all(map(_is_variable, parts))
        case ast.Starred(value=value):
            return _is_variable(value)
    return isinstance(target, ast.Name)


def _takes_steps(project: Project, module: ModuleIndex, block: ast.AST) -> bool:
    """Return whether a call of a block may update weights or write something, by its name or as it takes a gradient."""
    calls = [part for part in walk(block) if isinstance(part, ast.Call)]
    if any(_ACTS.search(last_name(call.func)) for call in calls if last_name(call.func) not in _CHANGES_NOTHING):
        return True
    resolver = project.fact(Resolver)
    return any(_takes_gradients(one.node) for call in calls for one in resolver.callees(module, call))


def _takes_gradients(function: ast.AST) -> bool:
    return isinstance(function, FUNCTIONS) and any(
        isinstance(part, ast.Attribute) and part.attr in ("backward", "step") for part in walk(function)
    )


def _is_carried(loop: ast.AST) -> bool:
    """Return whether a round of a loop reads what the one before it set (``state, loss = update(state, batch)``)."""
    own = {
        part.id
        for one in walk(loop)
        if isinstance(one, ast.comprehension)
        for part in walk(one.target)
        if isinstance(part, ast.Name)
    }
    named = (part for part in walk(loop) if isinstance(part, ast.Name) and part.id not in own)
    names = sorted(named, key=lambda one: one.lineno)
    first: dict[str, int] = {}
    for part in names:
        if isinstance(part.ctx, ast.Store):
            first.setdefault(part.id, part.lineno)
    return any(isinstance(part.ctx, ast.Load) and part.lineno <= first.get(part.id, 0) for part in names)


def _is_read_after(module: ModuleIndex, loop: ast.For | ast.While | ast.AsyncFor) -> bool:
    """Return whether anything outside of a loop reads a variable that the loop sets."""
    inside = set(walk(loop))
    stored = {part.id for part in inside if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    return any(
        isinstance(use.ctx, ast.Load) and use not in inside and use.lineno > loop.lineno
        for name in stored
        for use in module.uses.get(name, ())
        if module.function(use) is module.function(loop)
    )
