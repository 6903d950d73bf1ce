"""Debuggers that stand for an error: all that a program does where none of its cases holds, or after an exception."""

from __future__ import annotations

import ast

from gpulint.documents.python import PythonModule
from gpulint.workspace.module_index import last_name

_SHOWS = frozenset({"print", "pprint", "print_exc", "print_exception", "warning", "warn", "error", "exception", "info"})
"""Calls that only say what happened."""
_UNSAID = '"none of the cases holds"'


def error_for(module: PythonModule, import_: ast.stmt | None, statement: ast.stmt) -> str:
    """Return the statement that a debugger stands for: an error where it is all that the last ``else`` of a choice, a
    ``case _``, the end of a function behind such a choice or a handler of exceptions does; empty for other places."""
    parent = module.parents.get(statement)
    block = _block(parent, statement)
    if not block:
        return ""
    end = block.index(statement)
    first = end - (import_ is not None and import_ in block)
    while first > 0 and shows(block[first - 1]):
        first -= 1
    if any(not shows(one) for one in block[end + 1 :]):
        return ""
    if isinstance(parent, ast.ExceptHandler):
        return "raise" if first == 0 else ""
    if not _is_for_the_rest(module, parent, block, first):
        return ""
    return f"raise ValueError({(said_in(module, block[first:end]) or [_UNSAID])[0]})"


def said_in(module: PythonModule, block: list[ast.stmt]) -> list[str]:
    """Return the texts, as literals, that the calls of a block show."""
    texts = (_text(one.value) for one in block if isinstance(one, ast.Expr) and shows(one))
    return [module.text(text) for text in texts if text is not None]


def _is_for_the_rest(module: PythonModule, parent: ast.AST | None, block: list[ast.stmt], first: int) -> bool:
    match parent:
        case ast.If(orelse=other) | ast.For(orelse=other) | ast.While(orelse=other) if block is other:
            return first == 0
        case ast.match_case(pattern=ast.MatchAs(pattern=None), guard=None):
            return first == 0
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return first > 0 and _always_leaves(block[first - 1])
    return False


def _always_leaves(choice: ast.stmt) -> bool:
    """Return whether all branches of a choice of several cases return a value: what is below it is for the rest."""
    cases = 0
    while isinstance(choice, ast.If):
        if not isinstance(choice.body[-1], ast.Return | ast.Raise):
            return False
        cases += 1
        if not choice.orelse:
            return cases > 1
        choice = choice.orelse[0]
    return False


def shows(statement: ast.stmt) -> bool:
    """Return whether a statement only says what happened."""
    match statement:
        case ast.Expr(value=ast.Call(func=func)):
            return last_name(func) in _SHOWS
        case ast.Expr(value=ast.Constant()) | ast.Pass():
            return True
    return False


def _text(value: ast.expr) -> ast.expr | None:
    """The one text that a call shows: ``print(f"unknown type {type(x)}")``."""
    match value:
        case ast.Call(args=[ast.JoinedStr() as text], keywords=[]):
            return text
        case ast.Call(args=[ast.Constant(value=str()) as text], keywords=[]):
            return text
    return None


def _block(parent: ast.AST | None, statement: ast.stmt) -> list[ast.stmt]:
    for name in ("body", "orelse"):
        block = getattr(parent, name, [])
        if isinstance(block, list) and statement in block:
            return block
    return []
