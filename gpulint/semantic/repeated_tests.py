"""Branches that never run, as a test above in the same chain, which did not hold, says what their own test says."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice

from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, last_name

_PURE = frozenset("startswith endswith lower upper strip isinstance issubclass hasattr getattr len str int get".split())
"""Calls that give the same each time, and change nothing."""
MAX_TESTS = 64
"""Most tests of a chain above a branch that are looked at."""
_ACTS = (ast.Await, ast.NamedExpr, ast.Yield, ast.YieldFrom)


def repeats_test(module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a branch around a place never runs: ``elif mode == "fast":`` below another one of the same chain,
    also below ``if mode in ("fast", "slow"):``; or a ``case`` below the same one."""
    inner = node
    for up in module.syntax.ancestors(node):
        if isinstance(up, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
            return False
        if isinstance(up, ast.If) and inner in up.body and _is_repeated(module, up):
            return True
        if isinstance(up, ast.match_case) and _is_repeated_case(module, up):
            return True
        inner = up
    return False


@query
def _is_repeated(module: ModuleIndex, branch: ast.If) -> bool:
    if not _is_plain(branch.test):
        return False
    excluded: dict[str, set[object]] = {}
    told = {(ast.unparse(part), holds) for part, holds in _parts(branch.test, True)}
    for test in islice(_tests_above(module, branch), MAX_TESTS):
        if not _is_plain(test):
            break
        for part, holds in _parts(test, False):
            if (ast.unparse(part), not holds) in told:
                return True
            name, values = _values(part, holds=not holds)
            excluded.setdefault(name, set()).update(values)
    return any(
        bool(values) and values <= excluded.get(name, set())
        for name, values in (_values(part, holds=holds) for part, holds in _parts(branch.test, True))
    )


def _tests_above(module: ModuleIndex, branch: ast.If) -> Iterator[ast.expr]:
    """Yield the tests of a chain that did not hold where a branch is asked for, the last one first."""
    up = module.syntax.parents.get(branch)
    while isinstance(up, ast.If) and up.orelse == [branch]:
        yield up.test
        branch, up = up, module.syntax.parents.get(up)


def _is_plain(test: ast.expr) -> bool:
    return not any(
        isinstance(part, _ACTS) or (isinstance(part, ast.Call) and last_name(part.func) not in _PURE)
        for part in walk(test)
    )


def _parts(test: ast.expr, holds: bool) -> Iterator[tuple[ast.expr, bool]]:
    """Yield what must be true or false where a test holds, or does not."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _parts(operand, not holds)
        case ast.BoolOp(op=operator, values=values) if isinstance(operator, ast.And) is holds:
            for value in values:
                yield from _parts(value, holds)
        case _:
            yield test, holds


def _values(part: ast.expr, *, holds: bool) -> tuple[str, set[object]]:
    """Return to which texts or numbers a test compares something: ``mode == "fast"``, ``mode in ("fast", "slow")``."""
    match part:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[ast.Constant(value=value)]) if holds:
            return ast.unparse(left), {value}
        case ast.Compare(left=left, ops=[ast.NotEq()], comparators=[ast.Constant(value=value)]) if not holds:
            return ast.unparse(left), {value}
        case ast.Compare(
            left=left,
            ops=[ast.In() | ast.NotIn() as within],
            comparators=[ast.Tuple() | ast.List() | ast.Set() as some],
        ) if isinstance(within, ast.In) is holds and all(isinstance(one, ast.Constant) for one in some.elts):
            return ast.unparse(left), {one.value for one in some.elts if isinstance(one, ast.Constant)}
    return "", set()


def _is_repeated_case(module: ModuleIndex, case: ast.match_case) -> bool:
    statement = module.syntax.parents.get(case)
    if not isinstance(statement, ast.Match) or not isinstance(case.pattern, ast.MatchValue | ast.MatchSingleton):
        return False
    text = ast.unparse(case.pattern)
    above = statement.cases[: statement.cases.index(case)]
    return any(one.guard is None and ast.unparse(one.pattern) == text for one in above)
