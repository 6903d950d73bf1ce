"""What a program does with what it reads from the GPU: decide, size something, compute on the host, or only keep it."""

from __future__ import annotations

import ast
import re
from typing import Literal

from gpulint import regex
from gpulint.query import query
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, last_name

Use = Literal["decides", "sizes", "computes", "kept"]
_SIZED = frozenset(
    """range zeros ones empty full arange narrow split view reshape expand repeat rand randn randint randperm
    topk""".split()
)
"""Calls whose arguments are counts or sizes."""
_COLLECTS = frozenset({"append", "extend", "update", "add", "log", "print", "format", "add_scalar", "array", "asarray"})
"""Calls that only keep or show what they are given."""
_LOSS = regex.compile(r"loss|err", re.IGNORECASE)


def use_of_read(module: ModuleIndex, node: ast.expr) -> Use:
    """Return how the value of ``node``, directly or by the name that it is given, is used in its function."""
    use = _use(module, node)
    if use != "kept":
        return use
    statement = next((up for up in module.syntax.ancestors(node) if isinstance(up, ast.stmt)), None)
    if _is_copied(node) and not _LOSS.search(module.syntax.text(node)) and _is_argument(module, node):
        return "computes"
    if not isinstance(statement, ast.Assign) or statement.value is not _whole(module, node):
        return "kept"
    names = {target.id for target in statement.targets if isinstance(target, ast.Name)}
    scope = next((up for up in module.syntax.ancestors(node) if isinstance(up, FUNCTIONS)), module.syntax.tree)
    uses = [
        _use(module, part)
        for name in names
        for part in _loads(module).get(name, ())
        if scope is module.syntax.tree or scope in module.syntax.ancestors(part)
    ]
    return next((use for use in ("decides", "sizes") if use in uses), "kept")


@query
def _loads(module: ModuleIndex) -> dict[str, list[ast.Name]]:
    """Return where each name is read."""
    found: dict[str, list[ast.Name]] = {}
    for part in module.syntax.nodes:
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
            found.setdefault(part.id, []).append(part)
    return found


def _is_copied(node: ast.expr) -> bool:
    """Return whether it is a whole tensor (``x.cpu()``), not a number."""
    return isinstance(node, ast.Call) and last_name(node.func) in ("cpu", "numpy", "tolist")


def _is_argument(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether an operation, a loop or a function, other than one that collects, works on the copy or what is
    made of it."""
    below: ast.AST = node
    for up in module.syntax.ancestors(node):
        match up:
            case ast.Call(func=function) if below is not function:
                return last_name(function) not in _COLLECTS
            case ast.BinOp() | ast.Compare() | ast.comprehension() | ast.For():
                return True
            case ast.stmt():
                return False
        below = up
    return False


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
