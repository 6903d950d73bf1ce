"""Errors for debuggers that wait for a failure: without a terminal, the run ends there, and without the debugger it
would go on with what has failed."""

from __future__ import annotations

import ast
import re

from gpulint import regex
from gpulint.documents.python import PythonModule, walk
from gpulint.workspace.module_index import last_name
from gpulint_fixers.job.unhandled_cases import said_in

FINITE = frozenset({"isnan", "isinf", "isfinite"})
_HOLD = frozenset({"all", "allclose", "equal", "array_equal", "isclose"})
"""Calls that find that something is as it should be."""
_MEASURED = regex.compile(r"(^|_)(loss(es)?|grads?|norm|nll|ppl|perplexity)(_|\d|$)", re.IGNORECASE)
"""Names of what grows where a training diverges."""
_DIVERGED = 1000
"""A loss above which a test looks for a divergence."""
_ALERTS = regex.compile(
    r"\bnans?\b|\binf(inite)?\b|alert|warning|error|fail(ed|ure|s)?\b|wrong|invalid|unexpected|should(n't| not| never)"
    r"|explod|diverge|overflow|corrupt|mismatch",
    re.IGNORECASE,
)
"""Words of a message that something has failed."""


def error_for_failure(module: PythonModule, statement: ast.stmt) -> str:
    """Return the error for a debugger that is the last statement of a branch whose test or message is about a failure,
    with which the program would train on; empty for other places."""
    parent = module.parents.get(statement)
    if not isinstance(parent, ast.If) or parent.body[-1] is not statement:
        return ""
    if value := _not_finite(parent.test):
        return f'raise FloatingPointError("{value} is not finite")'
    said = said_in(module, parent.body)
    if not (is_failure(parent.test) or any(_ALERTS.search(text) for text in said)):
        return ""
    return f"raise RuntimeError({said[0] if said else _quoted(module.text(parent.test))})"


def is_failure(test: ast.expr) -> bool:
    """Return whether a condition, or a part of it, finds that a computation has failed: a value that is not finite, a
    loss that diverges, ``not (x > 0).all()``."""
    if isinstance(test, ast.BoolOp):
        return any(map(is_failure, test.values))
    return bool(_not_finite(test)) or _diverges(test) or _is_denied(test)


def _not_finite(test: ast.expr) -> str:
    """Return what a test finds to be not finite (``loss`` of ``torch.isnan(loss).any()``, of ``not isfinite(loss)``, of
    ``loss != loss``); empty if the test may hold for other values."""
    match test:
        case ast.Compare(left=left, ops=[ast.NotEq()], comparators=[right]) if _is_same(left, right):
            return ast.unparse(left) if isinstance(left, ast.Name | ast.Attribute) else "a value"
    parts = list(walk(test))
    calls = [part for part in parts if isinstance(part, ast.Call) and last_name(part.func) in FINITE]
    turns = sum(isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Not | ast.Invert) for part in parts)
    counts = [part for part in parts if isinstance(part, ast.Compare)]
    if len(calls) != 1 or any(isinstance(getattr(part, "op", None), ast.Or | ast.BitOr) for part in parts):
        return ""
    if turns % 2 != (last_name(calls[0].func) == "isfinite"):
        return ""
    if any(not isinstance(one.ops[0], ast.Gt | ast.GtE | ast.NotEq) for one in counts):
        return ""
    value_of = calls[0].args[0] if calls[0].args else getattr(calls[0].func, "value", None)
    return ast.unparse(value_of) if isinstance(value_of, ast.Name | ast.Attribute) else "a value"


def _diverges(test: ast.expr) -> bool:
    """``loss.item() > 1e5``"""
    match test:
        case ast.Compare(
            left=left, ops=[ast.Gt() | ast.GtE()], comparators=[ast.Constant(value=int() | float() as most)]
        ):
            return most >= _DIVERGED and any(
                _MEASURED.search(part.id) for part in walk(left) if isinstance(part, ast.Name)
            )
    return False


def _is_denied(test: ast.expr) -> bool:
    """``not (weights > 0).all()``, ``not torch.allclose(a, b)``"""
    return (
        isinstance(test, ast.UnaryOp)
        and isinstance(test.op, ast.Not)
        and isinstance(test.operand, ast.Call)
        and last_name(test.operand.func) in _HOLD
    )


def _is_same(left: ast.expr, right: ast.expr) -> bool:
    """Return whether a value is compared with itself, which only NaN differs from."""
    return ast.unparse(left) == ast.unparse(right) and not any(isinstance(part, ast.Call) for part in walk(left))


def _quoted(text: str) -> str:
    """A condition as a message, where it can be one."""
    plain = re.sub(r"\s+", " ", text)
    return f'"{plain}"' if '"' not in plain and "\\" not in plain and len(plain) < 60 else '"a check failed"'
