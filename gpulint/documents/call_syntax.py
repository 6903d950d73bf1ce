"""Parts of calls and signatures that syntax trees hold in separate lists."""

from __future__ import annotations

import ast


def keyword_value(call: ast.Call, name: str) -> ast.expr | None:
    """Return what a call passes as ``name=value``."""
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def passed_as(call: ast.Call, name: str, position: int) -> ast.expr | None:
    """Return what a call passes for a parameter, by its name or else by its position."""
    value = keyword_value(call, name)
    return value if value is not None or len(call.args) <= position else call.args[position]


def with_defaults(arguments: ast.arguments) -> list[tuple[ast.arg, ast.expr | None]]:
    """Return each parameter but ``*args`` and ``**kwargs`` with its default."""
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + arguments.defaults
    return [
        *zip(positional, defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]


def default_of(arguments: ast.arguments, name: str) -> ast.expr | None:
    """Return the default of a parameter."""
    return next((default for parameter, default in with_defaults(arguments) if parameter.arg == name), None)
