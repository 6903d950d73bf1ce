"""Tables of numbers that each step reads and keeps: a history of its metrics."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.workspace.module_index import ModuleIndex, last_name

SEVERAL = 3
"""Reads in one table from which on one copy of all pays."""
_READS = frozenset({"item", "float", "tolist"})


@query
def is_of_stored_table(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a read is one of several values of a table that is put into a list: ``metrics = {"loss":
    loss.item(), ...}`` and ``history.append(metrics)``, perhaps where another function gets it."""
    table = module.syntax.parents.get(node)
    if not isinstance(table, ast.Dict) or sum(map(_is_read, table.values)) < SEVERAL:
        return False
    home = module.syntax.parents.get(table)
    if isinstance(home, ast.Call):
        return last_name(home.func) == "append"
    names = [one.id for one in home.targets if isinstance(one, ast.Name)] if isinstance(home, ast.Assign) else []
    return any(
        isinstance(part, ast.Name) and part.id in names
        for call in module.calls_by_name.get("append", ())
        for given in call.args
        for part in ([given] if isinstance(given, ast.Name) else _unpacked(given))
    )


def _is_read(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and last_name(value.func) in _READS


def _unpacked(given: ast.expr) -> list[ast.expr]:
    """``metrics`` of ``{"step": step, **metrics}`` and ``dict(metrics)``"""
    match given:
        case ast.Dict(keys=keys, values=values):
            return [value for key, value in zip(keys, values, strict=True) if key is None]
        case ast.Call(func=ast.Name(id="dict")):
            return [part for part in walk(given) if isinstance(part, ast.Name)]
    return []
