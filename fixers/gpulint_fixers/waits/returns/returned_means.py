"""Means of numbers that a function reads one by one: ``scores.append(score.item())``, then ``return sum(scores) /
len(scores)``."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.fix import Edit
from gpulint.workspace.module_index import FunctionNode, ModuleIndex
from gpulint_fixers.waits.device_reads import DeviceRead
from gpulint_fixers.waits.inner_loops.inner_lists import is_number


def mean_of_list(
    module: ModuleIndex, function: FunctionNode, statement: ast.stmt, read: DeviceRead
) -> tuple[ast.expr, Edit] | None:
    """Return the mean of the list that a statement appends a read to, and the edit that computes it of tensors; None
    if the list is used otherwise too."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append", value=ast.Name(id=name)), args=[value])):
            pass
        case _:
            return None
    if value is not read.whole or not is_number(read.tensor):
        return None
    if not any(binding.target == "torch" for binding in module.top.bindings.get("torch", [])):
        return None
    means = [part for part in walk(function) if isinstance(part, ast.BinOp) and _is_mean(part, name)]
    starts = [part for part in walk(function) if _is_start(part, name)]
    uses = [part for part in walk(function) if isinstance(part, ast.Name) and part.id == name]
    if len(means) != 1 or len(starts) != 1 or len(uses) != 4:
        return None
    return means[0], Edit(module.path, module.syntax.span(means[0]), f"torch.stack({name}).mean()")


def _is_mean(part: ast.BinOp, name: str) -> bool:
    """``sum(scores) / len(scores)``"""
    match part:
        case ast.BinOp(
            left=ast.Call(func=ast.Name(id="sum"), args=[ast.Name(id=one)], keywords=[]),
            op=ast.Div(),
            right=ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=other)]),
        ):
            return one == other == name
    return False


def _is_start(part: ast.AST, name: str) -> bool:
    """``scores = []``"""
    match part:
        case ast.Assign(targets=[ast.Name(id=own)], value=ast.List(elts=[])):
            return own == name
    return False
