"""Statements that control never passes: what follows them in their block is not run."""

from __future__ import annotations

import ast
import re

from gpulint import regex
from gpulint.documents.python import PythonModule, walk

_LEAVING = (ast.Raise, ast.Return, ast.Continue, ast.Break)
_ENDING = frozenset({("sys", "exit"), ("os", "_exit"), ("os", "abort")})
_BUILTIN = ("exit", "quit")
_CELLS = regex.compile(r"^# ?(?:%%|COMMAND -|In\[)", re.MULTILINE)
"""What separates the cells of a notebook that is kept as a script."""


def ends_program(statement: ast.stmt) -> bool:
    """Return whether a statement calls what ends the program (``sys.exit(1)``)."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Name(id=name))):
            return name in _BUILTIN
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=name))):
            return (owner, name) in _ENDING
    return False


def ends_block(syntax: PythonModule, statement: ast.stmt) -> bool:
    """Return whether nothing below a statement of a module in its block is run."""
    if not leaves_block(statement):
        return False
    if syntax.parents.get(statement) is syntax.tree and is_notebook_like(syntax):
        return False
    return not _calls_builtin(statement) or not any(map(_binds_exit, syntax.nodes))


def is_notebook_like(syntax: PythonModule) -> bool:
    """Return whether a module is a notebook, whose cells below the one that ends in an error may be run too."""
    return syntax.path.suffix != ".py" or _CELLS.search(syntax.source.text) is not None


def _calls_builtin(statement: ast.stmt) -> bool:
    return any(isinstance(part, ast.Name) and part.id in _BUILTIN for part in walk(statement))


def _binds_exit(node: ast.AST) -> bool:
    """Return whether a node makes ``exit`` or ``quit`` mean something else than the builtin."""
    match node:
        case ast.FunctionDef(name=bound) | ast.Name(id=bound, ctx=ast.Store()) | ast.arg(arg=bound):
            return bound in _BUILTIN
        case ast.ImportFrom(module=origin, names=names) if origin not in ("sys", "os"):
            return any((alias.asname or alias.name) in _BUILTIN for alias in names)
    return False


def leaves_block(statement: ast.stmt) -> bool:
    """Return whether control never gets from a statement to the one below it, whichever of its branches runs."""
    if isinstance(statement, ast.Expr):
        return ends_program(statement)
    match statement:
        case ast.If(body=body, orelse=[*_, last]):
            return leaves_block(body[-1]) and leaves_block(last)
        case ast.Try(finalbody=[*_, last]) if leaves_block(last):
            return True
        case ast.Try(body=body, handlers=handlers, orelse=orelse):
            return leaves_block((orelse or body)[-1]) and all(leaves_block(one.body[-1]) for one in handlers)
        case ast.With(body=body) | ast.AsyncWith(body=body):
            return isinstance(body[-1], ast.Return)  # another exit may be caught (`with pytest.raises(SystemExit)`)
        case ast.While(test=ast.Constant(value=value)):
            return bool(value) and not any(isinstance(part, ast.Break) for part in walk(statement))
        case ast.Assert(test=ast.Constant(value=value)):
            return not value
    return isinstance(statement, _LEAVING)
