"""Constants that a variable has at a place because a statement in front of it sets them, whatever it was before."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex

_REPEATED = (ast.For, ast.AsyncFor, ast.While, ast.Try, ast.With, ast.AsyncWith)
"""Statements whose parts may run after others of them."""


def constant_at(module: ModuleIndex, name: ast.Name, entered: ast.While | None = None) -> ast.Constant | None:
    """The constant that the last assignment in front of a use gives a variable of a function (``stop = True`` before
    ``if not stop:``); in the test of the loop that is ``entered``, when it is asked first."""
    inner: ast.AST = name
    for up in module.syntax.ancestors(name):
        if isinstance(inner, ast.stmt) and (place := module.syntax.place(inner)) is not None:
            block, index = place
            for statement in reversed(getattr(up, block)[:index]):
                match statement:
                    case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name.id:
                        return value if isinstance(value, ast.Constant) else None
                if _binds(statement, name.id):
                    return None
        if isinstance(up, FUNCTIONS) or (up is not entered and isinstance(up, _REPEATED) and _binds(up, name.id)):
            return None
        inner = up
    return None


def _binds(statement: ast.AST, name: str) -> bool:
    return any(
        (isinstance(part, ast.Name) and part.id == name and not isinstance(part.ctx, ast.Load))
        or (isinstance(part, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and part.name == name)
        or (isinstance(part, ast.alias) and (part.asname or part.name) in (name, "*"))
        or (isinstance(part, (*FUNCTIONS, ast.ClassDef)) and part.name == name)
        for part in walk(statement)
    )
