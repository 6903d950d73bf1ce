"""The conditions that a statement stands under, the early exits in front of it, and what is switched around it."""

from __future__ import annotations

import ast
import operator
from bisect import bisect_left
from collections.abc import Callable, Iterator

from gpulint.documents.exits import ends_program
from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.repeated_tests import repeats_test
from gpulint.semantic.straight_lines import constant_at
from gpulint.workspace.module_index import FUNCTIONS, BindingKind, ModuleIndex, last_name, source_text

_COMPARES: dict[type[ast.cmpop], Callable[..., bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
}
MAX_TESTS = 50
"""Most early exits, or operands of one ``and``, that are looked at in front of a place."""
_RUN_AT_ONCE = frozenset({"map", "filter", "sorted", "sort", "min", "max", "reduce", "tree_map", "apply_to_collection"})
"""Functions that call a function that they are given before they return, or when their result is used."""


def conditions(module: ModuleIndex, node: ast.AST, until: ast.AST | None = None) -> Iterator[tuple[ast.expr, bool]]:
    """(test, holds) of every ``if`` and conditional expression around ``node`` within its function, innermost first.

    Early exits count too: after ``if step % 10: continue`` the rest of the block runs only when the test is false.
    """
    inner = node
    for up in module.syntax.ancestors(node):
        if up is until:
            yield from ((test, False) for test in _exits_before(module, up, inner, nested=False))
            return
        if isinstance(up, ast.If):
            if (place := module.syntax.place(inner)) is not None:
                yield up.test, place[0] == "body"
        elif isinstance(up, ast.IfExp):
            if inner is not up.test:
                yield up.test, inner is up.body
        elif isinstance(up, ast.BoolOp):
            for number, value in enumerate(up.values):
                if value is inner:
                    break
                if number == MAX_TESTS:
                    module.report_limit(f"an expression has more than {MAX_TESTS} operands")
                    break
                yield value, isinstance(up.op, ast.And)
        yield from ((test, False) for test in _exits_before(module, up, inner, nested=False))
        if isinstance(up, (*FUNCTIONS, ast.Lambda, ast.ClassDef)) and not _runs_at_once(module, up):
            return
        inner = up


def _runs_at_once(module: ModuleIndex, function: ast.AST) -> bool:
    """``map(lambda x: x.cpu(), outputs)``: the function runs where it is written, if at all."""
    call = module.syntax.parents.get(function)
    call = module.syntax.parents.get(call) if isinstance(call, ast.keyword) else call
    return isinstance(function, ast.Lambda) and isinstance(call, ast.Call) and last_name(call.func) in _RUN_AT_ONCE


def _exits_before(module: ModuleIndex, up: ast.AST, inner: ast.AST, nested: bool) -> list[ast.expr]:
    """The tests of the last early exits in front of ``inner`` in its block of ``up``, in source order."""
    place = module.syntax.place(inner)
    if place is None or place[0] not in ("body", "orelse", "finalbody"):
        return []
    block, index = place
    question = up, block, nested
    if question not in module.exits:
        found = [
            (number, test)
            for number, statement in enumerate(getattr(up, block))
            if isinstance(statement, ast.If)
            for test in (_exits_in(statement) if nested else _exit_of(statement))
        ]
        module.exits[question] = [number for number, _ in found], [test for _, test in found]
    numbers, tests = module.exits[question]
    end = bisect_left(numbers, index)
    if end > MAX_TESTS:
        module.report_limit(f"a block has more than {MAX_TESTS} early exits")
    return tests[max(end - MAX_TESTS, 0) : end]


def _exit_of(statement: ast.If) -> list[ast.expr]:
    """The tests of ``if ...: return`` with its ``elif``, where all of them leave the block."""
    if not _leaves(statement.body):
        return []
    match statement.orelse:
        case []:
            return [statement.test]
        case [ast.If() as other] if rest := _exit_of(other):
            return [statement.test, *rest]
    return []


def exclude_each_other(module: ModuleIndex, one: ast.AST, other: ast.AST, loop: ast.AST) -> bool:
    """Return whether two places of a loop never run in the same program (``if mode == "train"`` and ``if mode ==
    "forward"``).

    Only what the loop does not set can tell.
    """
    told, contrary = known_from(module, one), known_from(module, other)
    names = {known[0] for known in told for second in contrary if _differ(known, second)}
    return bool(names) and not names <= _stored(module, loop)


@query
def _stored(module: ModuleIndex, loop: ast.AST) -> frozenset[str]:
    """Return what is set in a loop."""
    return frozenset(ast.unparse(part) for part in walk(loop) if isinstance(getattr(part, "ctx", None), ast.Store))


def known_from(module: ModuleIndex, node: ast.AST) -> tuple[tuple[str, object, bool], ...]:
    """(name, constant, equal) for what the conditions around a place say of names that are compared with constants."""
    return tuple(known for test, holds in conditions(module, node) for known in _known_from_test(module, test, holds))


@query
def _known_from_test(module: ModuleIndex, test: ast.expr, holds: bool) -> tuple[tuple[str, object, bool], ...]:
    found: list[tuple[str, object, bool]] = []
    together = isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) is holds
    for part in test.values if isinstance(test, ast.BoolOp) and together else [test]:
        match part:
            case ast.Compare(
                left=ast.Name() | ast.Attribute() as left,
                ops=[ast.Eq() | ast.NotEq() as operator],
                comparators=[ast.Constant(value=value)],
            ):
                found.append((source_text(module, left), value, isinstance(operator, ast.Eq) is holds))
    return tuple(found)


def _differ(one: tuple[str, object, bool], other: tuple[str, object, bool]) -> bool:
    """Return whether two such statements cannot both be true."""
    (name, value, equal), (again, second, also) = one, other
    return name == again and ((value == second and equal is not also) or (value != second and equal and also))


def nested_exits(module: ModuleIndex, node: ast.AST, until: ast.AST | None = None) -> Iterator[tuple[ast.expr, bool]]:
    """(test, False) of early exits in front of ``node`` that stand inside other ``if`` statements, or have an ``else``.

    On some way to ``node`` the test was false; on others it was not asked.
    """
    inner = node
    for up in module.syntax.ancestors(node):
        yield from ((test, False) for test in _exits_before(module, up, inner, nested=True))
        if up is until:
            return
        if isinstance(up, (*FUNCTIONS, ast.Lambda, ast.ClassDef)) and not _runs_at_once(module, up):
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
    """Return whether a statement ends the program (or at least the loop, by an exception)."""
    return isinstance(statement, ast.Raise) or ends_program(statement)


def is_failure(module: ModuleIndex, test: ast.expr, node: ast.AST) -> bool:
    """Return whether a test in front of ``node`` ends the program where it holds (``if failed: sys.exit()``), which
    then has no more rounds of a loop that could pass by ``node``."""
    exit_ = module.syntax.parents.get(test)
    return (
        isinstance(exit_, ast.If)
        and exit_.test is test
        and _ends(exit_.body[-1])
        and exit_ not in module.syntax.ancestors(node)
    )


def is_ending(module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether ``node`` is in a block that ends the program (``if not isfinite(loss): ...; sys.exit(1)``), or in
    what a function does before it raises where it has not returned."""
    inner = node
    for up in module.syntax.ancestors(node):
        if isinstance(up, FUNCTIONS) and inner in up.body and _ends(up.body[-1]):
            before = up.body[: up.body.index(inner)]
            return any(isinstance(one, ast.If) and isinstance(one.body[-1], ast.Return) for one in before)
        if isinstance(up, (*FUNCTIONS, ast.Lambda, ast.ClassDef, ast.For, ast.While)):
            return False
        if isinstance(up, ast.If | ast.ExceptHandler):
            place = module.syntax.place(inner)
            body = up.body if place is not None and place[0] == "body" else getattr(up, "orelse", [])
            if body and _ends(body[-1]):
                return True
        inner = up
    return False


def is_failing(module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether ``node`` is in a block of its function that ends by raising an error (``raise
    NotImplementedError``), so that no run gets past it."""
    inner = node
    for up in module.syntax.ancestors(node):
        if isinstance(up, (*FUNCTIONS, ast.ClassDef)):
            return False
        if isinstance(up, ast.If | ast.ExceptHandler) and (place := module.syntax.place(inner)) is not None:
            last = getattr(up, place[0])[-1]
            if isinstance(last, ast.Raise) and "Exit" not in ast.unparse(last):
                return True
        inner = up
    return False


def is_unreachable(module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a statement in front of ``node`` in a block around it always leaves that block (``raise``), or a
    test around it is a constant that says no (``if False:``), or a variable of the function that is one there, or says
    what one above it in its chain said."""
    if module.unreached and any(up in module.unreached for up in (node, *module.syntax.ancestors(node))):
        return True
    if repeats_test(module, node) or any(_is_never_entered(module, loop) for loop in _loops_around(module, node)):
        return True
    parts = (part for test, holds in conditions(module, node) for part in parts_of(test, holds))
    return any(_decided(module, part) is (not holds) for part, holds in parts)


@query
def _is_never_entered(module: ModuleIndex, loop: ast.While) -> bool:
    """``stop = True`` before ``while not stop:``"""
    return any(_decided(module, part, loop) is (not holds) for part, holds in parts_of(loop.test, True))


def _loops_around(module: ModuleIndex, node: ast.AST) -> Iterator[ast.While]:
    """Yield the ``while`` loops of its function whose bodies hold a place."""
    inner = node
    for up in module.syntax.ancestors(node):
        if isinstance(up, FUNCTIONS):
            return
        if isinstance(up, ast.While) and inner in up.body:
            yield up
        inner = up


def _decided(module: ModuleIndex, part: ast.expr, entered: ast.While | None = None) -> bool | None:
    """Return how a test of constants turns out, also of variables of the function that are one; None if unknown. That
    of a loop which is ``entered`` is asked for the first time."""
    match part:
        case ast.Compare(left=ast.Name(id="__name__"), ops=[ast.Eq()], comparators=[ast.Constant(value=str(name))]):
            # A program that somebody has switched off: `if __name__ == "__main__2":`.
            others = name.startswith("__") and name not in ("__main__", "__mp_main__", module.path.stem)
            return False if others else None  # any other module may have a plain name
        case ast.Compare(left=left, ops=[compares], comparators=[right]) if type(compares) in _COMPARES:
            one, other = _constant(module, left, entered), _constant(module, right, entered)
            if one is None or other is None or type(one.value) is not type(other.value):
                return None
            if not isinstance(one.value, int | float | str):
                return None
            return _COMPARES[type(compares)](one.value, other.value)
    constant = _constant(module, part, entered)
    return None if constant is None else bool(constant.value)


def _constant(module: ModuleIndex, part: ast.expr, entered: ast.While | None) -> ast.Constant | None:
    """The constant that a test is, or the only value of a variable of its function (``parallel = False``), or that
    which the last assignment in front of the test gives it."""
    if not isinstance(part, ast.Name):
        return part if isinstance(part, ast.Constant) else None
    scope = module.scope(part)
    bindings = scope.bindings.get(part.id, ()) if isinstance(scope.node, FUNCTIONS) else ()
    if part.id in module.top.bindings:
        return None  # what an inner function sets by `nonlocal` counts as a variable of the module
    if len(bindings) > 1:
        return constant_at(module, part, entered)
    only = bindings[0] if bindings else None
    if only is None or only.kind is not BindingKind.ASSIGN or only.path:
        return None
    return only.value if isinstance(only.value, ast.Constant) else None


def ends_after_repair(module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether ``node`` is in an ``except`` that makes what was missing and then ends the program, to be run
    again."""
    return is_ending(module, node) and any(isinstance(up, ast.ExceptHandler) for up in module.syntax.ancestors(node))


def parts_of(test: ast.expr, holds: bool) -> Iterator[tuple[ast.expr, bool]]:
    """Yield what must be true or false for a test to hold: of ``not (a or not b)`` that a is false and b true."""
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, holds = test.operand, not holds
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) is holds:
        for value in test.values:
            yield from parts_of(value, holds)
    elif holds and isinstance(test, ast.IfExp) and isinstance(test.orelse, ast.Constant) and not test.orelse.value:
        yield from parts_of(test.test, True)
        yield from parts_of(test.body, True)
    else:
        yield test, holds


def rules_out(test: ast.expr, holds: bool, excludes: Callable[[ast.expr, bool], bool]) -> bool:
    """Return whether a test that holds, or does not, rules something out, by what its parts rule out.

    One part is enough of ``a and b`` that holds and of ``a or b`` that does not; otherwise every part must exclude it.
    """
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, holds = test.operand, not holds
    if not isinstance(test, ast.BoolOp):
        return excludes(test, holds)
    found = (rules_out(value, holds, excludes) for value in test.values)
    return any(found) if isinstance(test.op, ast.And) is holds else all(found)


def spelt(module: ModuleIndex, test: ast.expr) -> ast.expr:
    """The value of a name that is bound once (``logs = tracer.due(step) if tracer.enabled else False``), else the
    test."""
    bindings = module.scope(test).lookup(test.id) if isinstance(test, ast.Name) else ()
    value = bindings[0].value if len(bindings) == 1 and not bindings[0].path else None
    return value if isinstance(value, ast.IfExp | ast.BoolOp) else test


def contexts_of(up: ast.AST) -> list[ast.expr]:
    """The context managers of a ``with``, or the decorators of a function or class: what may switch things inside."""
    if isinstance(up, ast.With | ast.AsyncWith):
        return [item.context_expr for item in up.items]
    return up.decorator_list if isinstance(up, (*FUNCTIONS, ast.ClassDef)) else []


def spellings(module: ModuleIndex, test: ast.expr) -> Iterator[str]:
    """Yield the text of a test, and of what its name is set to once (``tracing = sys.gettrace()``)."""
    yield source_text(module, spelt(module, test))
    bound = module.scope(test).lookup(test.id) if isinstance(test, ast.Name) else ()
    if len(bound) == 1 and not bound[0].path:
        match bound[0].value:
            case ast.Attribute() | ast.Compare() | ast.Call(args=[], keywords=[]) as value:
                yield source_text(module, value)
