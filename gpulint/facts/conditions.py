"""The conditions that a statement stands under, the early exits in front of it, and what is switched around it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint.documents.python import walk
from gpulint.facts.scopes import FUNCTIONS, ModuleScopes

_EXITS = frozenset({"sys.exit", "os._exit", "exit", "quit", "os.abort"})


def conditions(scopes: ModuleScopes, node: ast.AST, until: ast.AST | None = None) -> Iterator[tuple[ast.expr, bool]]:
    """(test, holds) of every ``if`` and conditional expression around ``node`` within its function, innermost first.

    Early exits count too: after ``if step % 10: continue`` the rest of the block runs only when the test is false.
    """
    inner = node
    for up in scopes.module.ancestors(node):
        if up is until:
            return
        if isinstance(up, ast.If | ast.IfExp):
            body = up.body if isinstance(up.body, list) else [up.body]
            orelse = up.orelse if isinstance(up.orelse, list) else [up.orelse]
            if inner in body:
                yield up.test, True
            elif inner in orelse:
                yield up.test, False
        elif isinstance(up, ast.BoolOp) and inner in up.values:
            for value in up.values[: up.values.index(inner)]:
                yield value, isinstance(up.op, ast.And)
        for name in ("body", "orelse", "finalbody"):
            block = getattr(up, name, None)
            if isinstance(block, list) and inner in block:
                for earlier in block[: block.index(inner)]:
                    if isinstance(earlier, ast.If) and not earlier.orelse and _leaves(earlier.body):
                        yield earlier.test, False
        if isinstance(up, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
            return
        inner = up


def exclude_each_other(scopes: ModuleScopes, one: ast.AST, other: ast.AST, loop: ast.AST) -> bool:
    """Do two places of a loop never run in the same program (``if mode == "train"`` and ``if mode == "forward"``)?

    Only what the loop does not set can tell.
    """
    told = _known_from(scopes, one)
    both = [(known, contrary) for known in told for contrary in _known_from(scopes, other) if _differ(known, contrary)]
    if not both:
        return False
    stored = {ast.unparse(part) for part in walk(loop) if isinstance(getattr(part, "ctx", None), ast.Store)}
    return any(known[0] not in stored for known, _ in both)


def _known_from(scopes: ModuleScopes, node: ast.AST) -> list[tuple[str, object, bool]]:
    """(name, constant, equal) for what the conditions around a place say of names that are compared with constants."""
    found: list[tuple[str, object, bool]] = []
    for test, holds in conditions(scopes, node):
        together = isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) is holds
        for part in test.values if isinstance(test, ast.BoolOp) and together else [test]:
            match part:
                case ast.Compare(
                    left=ast.Name() | ast.Attribute() as left,
                    ops=[ast.Eq() | ast.NotEq() as operator],
                    comparators=[ast.Constant(value=value)],
                ):
                    found.append((ast.unparse(left), value, isinstance(operator, ast.Eq) is holds))
    return found


def _differ(one: tuple[str, object, bool], other: tuple[str, object, bool]) -> bool:
    """Can two such statements not both be true?"""
    (name, value, equal), (again, second, also) = one, other
    return name == again and ((value == second and equal is not also) or (value != second and equal and also))


def nested_exits(scopes: ModuleScopes, node: ast.AST, until: ast.AST | None = None) -> Iterator[tuple[ast.expr, bool]]:
    """(test, False) of early exits in front of ``node`` that stand inside other ``if`` statements, or have an ``else``.

    On some way to ``node`` the test was false; on others it was not asked.
    """
    inner = node
    for up in scopes.module.ancestors(node):
        if up is until:
            return
        for name in ("body", "orelse", "finalbody"):
            block = getattr(up, name, None)
            if isinstance(block, list) and inner in block:
                for earlier in block[: block.index(inner)]:
                    if isinstance(earlier, ast.If):
                        yield from ((test, False) for test in _exits_in(earlier))
        if isinstance(up, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
            return
        inner = up


def _exits_in(statement: ast.If) -> Iterator[ast.expr]:
    if statement.orelse and _leaves(statement.body):
        yield statement.test
    for part in (*statement.body, *statement.orelse):
        if isinstance(part, ast.If):
            if not part.orelse and _leaves(part.body):
                yield part.test
            yield from _exits_in(part)


def _leaves(body: list[ast.stmt]) -> bool:
    return bool(body) and (isinstance(body[-1], ast.Continue | ast.Return | ast.Break) or _ends(body[-1]))


def _ends(statement: ast.stmt) -> bool:
    """Does a statement end the program (or at least the loop, by an exception)?"""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return ast.unparse(statement.value.func) in _EXITS
    return isinstance(statement, ast.Raise)


def is_ending(scopes: ModuleScopes, node: ast.AST) -> bool:
    """Does ``node`` stand in a block that ends the program (``if not isfinite(loss): ...; sys.exit(1)``)?"""
    inner = node
    for up in scopes.module.ancestors(node):
        if isinstance(up, (*FUNCTIONS, ast.Lambda, ast.ClassDef, ast.For, ast.While)):
            return False
        if isinstance(up, ast.If | ast.ExceptHandler):
            body = up.body if inner in up.body else getattr(up, "orelse", [])
            if body and _ends(body[-1]):
                return True
        inner = up
    return False


def ends_after_repair(scopes: ModuleScopes, node: ast.AST) -> bool:
    """Does ``node`` stand in an ``except`` that makes what was missing and then ends the program, to be run again?"""
    return is_ending(scopes, node) and any(isinstance(up, ast.ExceptHandler) for up in scopes.module.ancestors(node))


def contexts_of(up: ast.AST) -> list[ast.expr]:
    """The context managers of a ``with``, or the decorators of a function or class: what may switch things inside."""
    if isinstance(up, ast.With | ast.AsyncWith):
        return [item.context_expr for item in up.items]
    return up.decorator_list if isinstance(up, (*FUNCTIONS, ast.ClassDef)) else []
