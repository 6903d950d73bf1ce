"""Values that are read from the GPU only to divide by them."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.workspace.module_index import ModuleIndex, last_name
from gpulint_rules.data.shown_values import followed

_NUMBERS = frozenset({"item", "tolist", "cpu", "numpy", "float", "int", "len"})
"""Calls whose results are in the host's memory."""


def only_divides(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a value is only what something is divided by that the host does not read as well (``total += loss
    / (2 * mask.sum().item())``)."""
    up = module.syntax.parents.get(node)
    uses: list[ast.expr] = [node]
    if isinstance(up, ast.Assign) and isinstance(up.targets[0], ast.Name):
        uses = [part for part in followed(module, node) if isinstance(part, ast.Name) and part.id == up.targets[0].id]
    divided = [_divided(module, part) for part in uses]
    return bool(divided) and all(one is not None and not any(map(_is_number, walk(one))) for one in divided)


def _divided(module: ModuleIndex, node: ast.expr) -> ast.expr | None:
    """The dividend of the division whose divisor holds a value, as a factor or a term."""
    below: ast.AST = node
    for up in module.syntax.ancestors(node):
        match up:
            case ast.BinOp(op=ast.Div(), right=right, left=left) if below is right:
                return left
            case ast.BinOp(op=ast.Mult() | ast.Add() | ast.Sub()) | ast.UnaryOp(op=ast.USub()):
                below = up
            case _:
                return None
    return None


def _is_number(node: ast.AST) -> bool:
    """Return whether the host has the value of an expression: what it reads, converts or counts."""
    return isinstance(node, ast.Call) and last_name(node.func) in _NUMBERS
