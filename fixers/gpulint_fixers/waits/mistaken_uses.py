"""Values that nothing reads since the program names another one in their place."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.workspace.module_index import ModuleIndex, last_name
from gpulint_fixers.waits.deferred_reads import Variable

_ADDS = frozenset({"append", "extend", "add", "update"})
_PLAIN = (ast.Name, ast.Constant, ast.BinOp, ast.Call, ast.Attribute, ast.Subscript, ast.UnaryOp)


def named_instead(variable: Variable, statement: ast.stmt) -> str:
    """Return the variable that the same loop makes in the same way and that the function names twice where it hands
    results on, once perhaps by mistake (``return loss / n, accuracy / n, loss / n``); empty if there is none."""
    module = variable.module
    kind = _made(statement)[1]
    around = module.function(variable.loop) or module.syntax.tree
    repeated = _repeated(module, around)
    if not repeated:
        return ""
    beside = (_made(part) for part in walk(variable.loop) if isinstance(part, ast.stmt))
    return next((name for name, how in beside if how == kind and name != variable.name and name in repeated), "")


def _made(statement: ast.stmt) -> tuple[str, type[ast.AST]]:
    """The variable that a statement sets or adds to, and how; empty for other statements."""
    match statement:
        case ast.AugAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
            return name, type(statement)
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr))) if attr in _ADDS:
            return name, ast.Call
    return "", type(statement)


@query
def _repeated(module: ModuleIndex, around: ast.AST) -> frozenset[str]:
    """The variables of parts that one result holds twice, or that statements beside each other hand on alike."""
    found = set[str]()
    for part in walk(around):
        for handed in (_elements(part), list(_handed_on(part))):
            texts = Counter(text for text, _ in handed)
            found.update(
                one.id
                for text, values in handed
                if texts[text] > 1
                for value in values
                for one in walk(value)
                if isinstance(one, ast.Name)
            )
    return frozenset(found)


def _elements(part: ast.AST) -> list[tuple[str, list[ast.expr]]]:
    """Return what a tuple, a list, a dictionary, a text or a call holds."""
    values: list[ast.expr] = []
    match part:
        case ast.Tuple(elts=values, ctx=ast.Load()) | ast.List(elts=values, ctx=ast.Load()) | ast.Dict(values=values):
            pass
        case ast.JoinedStr(values=pieces):
            values = [piece.value for piece in pieces if isinstance(piece, ast.FormattedValue)]
        case ast.Call(args=given, keywords=keywords):
            values = [*given, *(keyword.value for keyword in keywords)]
    return [(ast.unparse(value), [value]) for value in values if _is_of_names(value)]


def _handed_on(part: ast.AST) -> Iterator[tuple[str, list[ast.expr]]]:
    """Yield what the statements of a block hand on under different names: ``writer.add_scalar("a", x)`` and
    ``writer.add_scalar("b", x)``, ``losses.append(x)`` and ``scores.append(x)``."""
    block, seen = getattr(part, "body", None), set[str]()
    for statement in block if isinstance(block, list) else ():
        match statement:
            case ast.Expr(value=ast.Call(func=func, args=given)):
                kind, values = last_name(func), [value for value in given if not isinstance(value, ast.Constant)]
            case ast.Assign(targets=[ast.Subscript()], value=value):
                kind, values = "=", [value]
            case _:
                continue
        text = ast.unparse(statement)
        if values and text not in seen and all(map(_is_of_names, values)):
            seen.add(text)
            yield f"{kind} {', '.join(map(ast.unparse, values))}", values


def _is_of_names(value: ast.expr) -> bool:
    """Return whether a value is computed of variables and numbers."""
    parts = walk(value)
    return any(isinstance(part, ast.Name) for part in parts) and all(isinstance(part, _PLAIN) for part in parts)
