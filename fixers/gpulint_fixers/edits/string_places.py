"""Where expressions stand inside of f-strings, for which Python gives reliable places only from 3.12 on."""

from __future__ import annotations

import ast
import re

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.fix import Edit
from gpulint.workspace.module_index import ModuleIndex
from gpulint_fixers.edits.calls import WIDTH

_AS_TEXT = regex.compile(r"%[-+ #0-9.]*[sra]")
"""Parts of a format that show a value by its text."""


def converted_in_string(module: ModuleIndex, node: ast.expr, text: str) -> Edit | None:
    """Replace an expression of an f-string by ``text``; None where its place is uncertain or its line gets too long."""
    syntax = module.syntax
    outer = next((up for up in [*syntax.ancestors(node)][::-1] if isinstance(up, ast.JoinedStr)), None)
    if outer is None or '"' in text or "'" in text:
        return None
    needle, whole = ast.unparse(node), syntax.text(outer)
    same = [part for part in walk(outer) if isinstance(part, type(node)) and ast.unparse(part) == needle]
    found = [match.span() for match in re.finditer(rf"(?<![\w.]){re.escape(needle)}(?![\w=]|\s+=)", whole)]
    inside = [span for span in found if _is_in_braces(whole[: span[0]])]
    if len(same) != 1 or len(inside) != 1:
        return None
    start = syntax.offsets(outer)[0]
    line = syntax.source.line(syntax.source.position(start + inside[0][0])[0]).rstrip()
    if len(line) + len(text) - len(needle) > max(syntax.source.width, WIDTH):
        return None
    return Edit(syntax.path, syntax.span_at(start + inside[0][0], start + inside[0][1]), text)


def _is_in_braces(before: str) -> bool:
    """Return whether a text ends in a part of an f-string that is computed."""
    plain = before.replace("{{", "").replace("}}", "")
    return plain.count("{") > plain.count("}")


def is_converted(module: ModuleIndex, node: ast.expr, convert: str) -> bool:
    """Return whether a number is read where it is used in any case: by ``float(total)``, and a tensor by ``"%d" %
    total`` as well."""
    parents, up = module.syntax.parents, module.syntax.parents.get(node)
    while isinstance(up, ast.BinOp) and isinstance(up.right, ast.Constant):
        up = parents.get(up)  # `float(total**0.5)`
    if isinstance(up, ast.Call) and len(up.args) == 1 and ast.unparse(up.func) in ("float", "int"):
        return not convert.startswith("[")
    inner: ast.AST = node
    up = parents.get(node)
    while ".as_tensor(" in convert and isinstance(up, ast.BinOp | ast.Tuple):
        match up:
            case ast.BinOp(op=ast.Mod(), left=ast.Constant(value=str(text)), right=shown) if shown is inner:
                return not _AS_TEXT.search(text)
        inner, up = up, parents.get(up)
    return False
