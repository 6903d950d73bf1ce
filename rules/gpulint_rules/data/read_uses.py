"""What a program does with a number that it reads from the GPU: decide, size something, or only keep it."""

from __future__ import annotations

import ast
from typing import Literal

from gpulint.documents.python import walk
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, last_name

Use = Literal["decides", "sizes", "kept"]
_SIZED = frozenset(
    {"range", "zeros", "ones", "empty", "full", "arange", "narrow", "split", "view", "reshape", "expand", "repeat"}
)
"""Calls whose arguments are counts or sizes."""


def use_of_read(module: ModuleIndex, node: ast.expr) -> Use:
    """How the value of ``node``, directly or by the name that it is given, is used in its function."""
    use = _use(module, node)
    if use != "kept":
        return use
    statement = next((up for up in module.syntax.ancestors(node) if isinstance(up, ast.stmt)), None)
    if not isinstance(statement, ast.Assign) or statement.value is not _whole(module, node):
        return "kept"
    names = {target.id for target in statement.targets if isinstance(target, ast.Name)}
    scope = next((up for up in module.syntax.ancestors(node) if isinstance(up, FUNCTIONS)), module.syntax.tree)
    uses = [
        _use(module, part)
        for part in walk(scope)
        if isinstance(part, ast.Name) and part.id in names and isinstance(part.ctx, ast.Load)
    ]
    return next((use for use in ("decides", "sizes") if use in uses), "kept")


def _whole(module: ModuleIndex, node: ast.expr) -> ast.expr:
    """``int(x.item())`` of ``x.item()``."""
    up = next(iter(module.syntax.ancestors(node)), None)
    converts = isinstance(up, ast.Call) and last_name(up.func) in ("int", "float", "bool") and node in up.args
    return up if converts and isinstance(up, ast.Call) else node


def _use(module: ModuleIndex, node: ast.expr) -> Use:
    below: ast.AST = node
    for up in module.syntax.ancestors(node):
        match up:
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test):
                return "decides" if below is test else "kept"
            case ast.Call(func=function) if below is not function and last_name(function) in _SIZED:
                return "sizes"
            case ast.Subscript(slice=index) if below is index:
                return "sizes"
            case ast.stmt():
                return "kept"
        below = up
    return "kept"
