"""Integer arithmetic of ``$(( ))``."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable

from gpulint import regex

_ALLOWED = regex.compile(r"[\w\s+*/%()$\{\}-]{1,200}")
_OVERFLOW = 2**63
"""Where the shell's own numbers wrap around."""
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda a, b: int(a / b),
    ast.Mod: lambda a, b: a - b * int(a / b),
}


def evaluate(expression: str, variable: Callable[[str], int | None]) -> int | None:
    """Value of sums, products and parentheses over integers and variables; None for anything else."""
    if not _ALLOWED.fullmatch(expression):
        return None
    try:
        tree = ast.parse(re.sub(r"\$\{?(\w+)\}?", r"\1", expression).strip(), mode="eval")
        value = _value(tree.body, variable)
        return value if value is None or abs(value) < _OVERFLOW else None
    except (SyntaxError, ValueError, ZeroDivisionError, OverflowError, RecursionError):
        return None


def _value(node: ast.expr, variable: Callable[[str], int | None]) -> int | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.Name):
        return variable(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _value(node.operand, variable)
        return None if inner is None else -inner
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _value(node.left, variable), _value(node.right, variable)
        if left is None or right is None:
            return None
        result = _OPERATORS[type(node.op)](left, right)
        return result if abs(result) < _OVERFLOW else None
    return None
