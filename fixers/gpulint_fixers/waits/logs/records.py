"""What is written like a log and keeps what it gets, as a history of all steps or the sum of them: methods that are
named like those of loggers, and files of rows."""

from __future__ import annotations

import ast
import re

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import FunctionNode, ModuleIndex, last_name

_ADDS = frozenset({"append", "appendleft", "extend"})
_TAKES = frozenset({*_ADDS, "add", "insert", "push", "update"})
"""Methods of what an object holds, such as a meter, that keep what they get."""

_TABLE = regex.compile(r"\.(csv|tsv|jsonl?|ndjson)\b")
"""Files that programs read."""
_LOG = regex.compile(r"log|hist|curve|loss|metric", re.IGNORECASE)
"""Names of files that show how a training goes."""


def keeps_rows(module: ModuleIndex, statement: ast.AST, *, of_elements: bool = False) -> bool:
    """Return whether a statement writes a row to a file that programs read (``open("predictions.csv", "w")``), or, if
    it does so once for each of some elements, to any file that is not named for a log: each row counts."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="write" | "writelines", value=ast.Name() as file))):
            pass
        case ast.Expr(value=ast.Call(func=ast.Name(id="print"), keywords=keywords)):
            named = (one.value for one in keywords if one.arg == "file" and isinstance(one.value, ast.Name))
            file = next(named, None)  # type: ignore[assignment]
        case _:
            return False
    for bound in () if file is None else reaching(module, module.scope(file).lookup(file.id), file):
        if isinstance(opened := bound.value, ast.Call) and last_name(opened.func) == "open":
            name = ast.unparse(opened)
            if _TABLE.search(name) or (of_elements and not _LOG.search(name)):
                return True
    return False


def keeps_values(function: FunctionNode) -> bool:
    """Return whether a method adds what it gets to attributes of its object, which fewer calls would leave incomplete:
    ``self.rows.append(values)``, ``self.total += value``, ``self.meters[name].update(value)``, ``self.mean = 0.9 *
    self.mean + 0.1 * value``."""
    plain = (*function.args.posonlyargs, *function.args.args)
    if not plain:
        return False
    owner = plain[0].arg
    given = {
        part.arg for part in (*plain[1:], *function.args.kwonlyargs, function.args.vararg, function.args.kwarg) if part
    }
    for part in walk(function):  # what is computed of the arguments counts as well
        match part:
            case ast.Assign(targets=[target], value=value) | ast.For(target=target, iter=value) if (
                _names(value) & given
            ):
                given |= _names(target)
    return any(_adds(part, owner, given) for part in walk(function))


def _adds(part: ast.AST, owner: str, given: set[str]) -> bool:
    match part:
        case ast.Call(func=ast.Attribute(attr=name, value=kept)) if name in _TAKES and _is_held(kept, owner):
            values = [*part.args, *(keyword.value for keyword in part.keywords)]
            return any(_names(value) & given for value in values)
        case ast.AugAssign(target=target, value=value):
            return _is_held(target, owner) and bool(_names(value) & given)
        case ast.Assign(targets=[target], value=value) if _is_held(target, owner):
            before = ast.unparse(target)
            return bool(_names(value) & given) and any(
                isinstance(one, ast.Attribute | ast.Subscript) and ast.unparse(one) == before for one in walk(value)
            )
    return False


def _is_held(kept: ast.expr, owner: str) -> bool:
    """``self.rows``, ``self.rows[name]``, ``self.meters.setdefault(name, Mean())``"""
    while isinstance(kept, ast.Subscript | ast.Call):
        kept = kept.value if isinstance(kept, ast.Subscript) else kept.func
        if isinstance(kept, ast.Attribute) and kept.attr in ("get", "setdefault"):
            kept = kept.value
    return isinstance(kept, ast.Attribute) and isinstance(kept.value, ast.Name) and kept.value.id == owner


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in walk(node) if isinstance(part, ast.Name)}
