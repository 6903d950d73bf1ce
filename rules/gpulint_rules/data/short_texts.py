"""Long expressions as messages show them: without what their calls are given."""

from __future__ import annotations

import ast

_LEFT_OUT = "..."
_MOST = 20
"""Most characters of a constant that is shown."""
_SIGNS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip


def shortened(node: ast.expr) -> str:
    """``torch.where(...).item()`` of a call with long arguments; empty for what is no comparison, call, attribute or
    element."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Call(func=ast.Name(id=name), args=[value], keywords=[]):
            return f"{name}({shortened(value) or _LEFT_OUT})"
        case ast.Call(func=func, args=args, keywords=keywords):
            called = shortened(func)
            return f"{called}({_LEFT_OUT if args or keywords else ''})" if called else ""
        case ast.Attribute(value=value, attr=attr):
            return f"{shortened(value) or f'({_LEFT_OUT})'}.{attr}"
        case ast.Subscript(value=value, slice=ast.Slice(lower=lower, upper=upper, step=None)):
            bounds = ":".join("" if bound is None else _side(bound) for bound in (lower, upper))
            return f"{shortened(value) or f'({_LEFT_OUT})'}[{bounds}]"
        case ast.Subscript(value=value):
            return f"{shortened(value) or f'({_LEFT_OUT})'}[{_LEFT_OUT}]"
        case ast.Compare(left=left, ops=[sign], comparators=[right]) if type(sign) in _SIGNS:
            sides = [_side(left), _side(right)]
            return f" {_SIGNS[type(sign)]} ".join(sides) if set(sides) != {_LEFT_OUT} else ""
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return f"not {_side(inner)}"
        case ast.UnaryOp(op=ast.Invert(), operand=inner):
            return f"~{_side(inner)}"
    return ""


def _side(node: ast.expr) -> str:
    """Return one side of a comparison."""
    number = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else node
    if isinstance(number, ast.Constant):
        text = ast.unparse(node)
        return text if len(text) <= _MOST else _LEFT_OUT
    return shortened(node) or _LEFT_OUT
