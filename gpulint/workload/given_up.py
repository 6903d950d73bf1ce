"""What a constructor opens to look at, and gives up again before it ends."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.workspace.module_index import FUNCTIONS, last_name


def is_given_up(owner: ast.ClassDef, name: str) -> bool:
    """Return whether the constructor of a class sets an attribute to None, or deletes it, after all that opens
    something for it, whatever is tested: no object has it when its workers start (``self.file = None``)."""
    methods = {part.name: part for part in owner.body if isinstance(part, FUNCTIONS)}
    constructor = methods.get("__init__")
    if constructor is None or any(isinstance(part, ast.Return) for part in walk(constructor)):
        return False  # one that may end before
    for statement in reversed(constructor.body):
        match statement:
            case ast.Assign(targets=targets, value=ast.Constant(value=None)) | ast.Delete(targets=targets):
                if any(_is_own(target, name) for target in targets):
                    return True
            case ast.AnnAssign(target=target, value=ast.Constant(value=None)) if _is_own(target, name):
                return True
        if _sets(statement, name) or any(_sets(methods[called], name) for called in _called(statement, methods)):
            return False
    return False


def _sets(statement: ast.AST, name: str) -> bool:
    return any(
        isinstance(part, ast.Attribute) and part.attr == name and isinstance(part.ctx, ast.Store)
        for part in walk(statement)
    )


def _called(statement: ast.stmt, names: dict[str, ast.FunctionDef | ast.AsyncFunctionDef]) -> set[str]:
    """Return the methods that a statement calls, also those that they call, of which each may set the attribute."""
    found = set[str]()
    todo: list[ast.stmt] = [statement]
    while todo:
        for part in walk(todo.pop()):
            called = last_name(part.func) if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) else ""
            if called in names and called not in found:
                found.add(called)
                todo.append(names[called])
    return found


def _is_own(target: ast.expr, name: str) -> bool:
    match target:
        case ast.Attribute(value=ast.Name(id="self"), attr=attribute):
            return attribute == name
    return False
