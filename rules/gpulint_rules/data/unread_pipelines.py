"""Pipelines of data that a function makes and nothing reads."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.workspace.module_index import ModuleIndex


def leads_nowhere(module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a function makes a pipeline that it neither returns nor reads: each use of the name only adds a
    step to it (``data = data.batch(8)``)."""
    function = module.function(call)
    statement = next((up for up in module.syntax.ancestors(call) if isinstance(up, ast.stmt)), None)
    if not isinstance(function, ast.FunctionDef) or not isinstance(statement, ast.Assign):
        return False
    target = statement.targets[0]
    if len(statement.targets) > 1 or not isinstance(target, ast.Name) or _is_shared(function, target.id):
        return False
    uses = [part for part in walk(function) if isinstance(part, ast.Name) and part.id == target.id]
    return all(isinstance(use.ctx, ast.Store) or _only_extends(module, use) for use in uses)


def _is_shared(function: ast.FunctionDef, name: str) -> bool:
    """Return whether a function's name is one of the module, or of a function around it; or all names may be read."""
    return any(
        (isinstance(part, ast.Global | ast.Nonlocal) and name in part.names)
        or (isinstance(part, ast.Name) and part.id in ("locals", "vars", "eval"))
        for part in walk(function)
    )


def _only_extends(module: ModuleIndex, use: ast.Name) -> bool:
    """``data`` of ``data = data.shuffle(512).batch(8)``"""
    node: ast.AST = use
    for up in module.syntax.ancestors(use):
        if isinstance(up, ast.Assign):
            return up.value is node and [ast.unparse(target) for target in up.targets] == [use.id]
        if not (isinstance(up, ast.Attribute) or (isinstance(up, ast.Call) and up.func is node)):
            return False
        node = up
    return False
