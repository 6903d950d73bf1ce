"""Long expressions as messages show them: without what their calls are given."""

from __future__ import annotations

import ast

_LEFT_OUT = "..."


def shortened(node: ast.expr) -> str:
    """``torch.where(...).item()`` of a call with long arguments; empty for what is no call, attribute or element."""
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
        case ast.Subscript(value=value):
            return f"{shortened(value) or f'({_LEFT_OUT})'}[{_LEFT_OUT}]"
    return ""
