"""Of what kind the numbers are that several statements add to one sum: integers, floats, tensors."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.workspace.module_index import BindingKind, ModuleIndex
from gpulint_fixers.waits.deferred_reads import Variable
from gpulint_fixers.waits.device_reads import is_plain_number, is_torch_tensor
from gpulint_fixers.waits.element_types import is_float, is_integer, is_truth, only_value

_READS = frozenset({"item", "tolist", "cpu", "numpy", "detach"})
_DEPTH = 2


def only_integers(variable: Variable, value: ast.expr) -> bool:
    """Return whether a sum to which ``value`` adds integers stays one with all else that the loop does to it, in
    whichever branch: the number behind the loop has to fit each of them."""
    operators = {type(op) for op, _ in _changes(variable)}
    return operators <= {ast.Add, ast.Sub} and all(
        is_whole(variable.module, other) for other in _others(variable, value)
    )


def is_float_in_each_round(variable: Variable, value: ast.expr) -> bool:
    """Return whether a sum to which ``value`` adds floats is a float whenever anything has been added to it."""
    module = variable.module
    if module.syntax.parents.get(variable.statement(value)) is variable.loop:
        return True
    return all(_is_float(module, other) for other in _others(variable, value))


def gets_tensors(project: Project, variable: Variable, value: ast.expr) -> bool:
    """Return whether another statement of the loop than that of ``value`` adds tensors, with which the sum is one
    already."""
    module = variable.module
    return any(
        not is_plain_number(module, other) and not _is_number(other) and is_torch_tensor(project, module, other)
        for other in _others(variable, value)
    )


def _others(variable: Variable, value: ast.expr) -> list[ast.expr]:
    return [other for _, other in _changes(variable) if all(part is not value for part in walk(other))]


def _changes(variable: Variable) -> list[tuple[ast.operator, ast.expr]]:
    """Return what the loop does to a sum: ``total += hits``, ``total = total + hits``, ``total /= n``."""
    found = list[tuple[ast.operator, ast.expr]]()
    for binding in variable.module.scope(variable.loop).bindings.get(variable.name, []):
        if not variable.is_inside(binding.node):
            continue
        match binding.node:
            case ast.AugAssign(op=op, value=value):
                found.append((op, value))
                continue
        match binding.value:
            case ast.BinOp(left=ast.Name(id=name), op=op, right=value) if (
                name == variable.name and binding.kind is BindingKind.ASSIGN
            ):
                found.append((op, value))
    return found


def is_whole(module: ModuleIndex, value: ast.expr, depth: int = 0) -> bool:
    """Return whether a value is certainly an integer, on the host or read from a tensor: ``len(labels)``,
    ``(found == label).sum().item()``."""
    match value:
        case ast.Constant(value=number):
            return isinstance(number, int)
        case ast.Compare():
            return True
        case ast.UnaryOp(operand=inner):
            return is_whole(module, inner, depth)
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv() | ast.Mod(), left=left, right=right):
            return is_whole(module, left, depth) and is_whole(module, right, depth)
        case ast.IfExp(body=body, orelse=other):
            return is_whole(module, body, depth) and is_whole(module, other, depth)
        case ast.Call(func=ast.Name(id="int")):
            return True
        case ast.Call(func=ast.Name(id="float")):
            return False
        case ast.Call(func=ast.Name(id="sum"), args=[ast.GeneratorExp(elt=one) | ast.ListComp(elt=one)]):
            return is_whole(module, one, depth)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="np" | "numpy"), attr="sum"), args=[counted]):
            return is_truth(module, counted)
        case ast.Call(func=ast.Attribute(attr=name, value=inner)) if name in _READS:
            return is_whole(module, inner, depth)
        case ast.Name() if depth < _DEPTH and (bound := only_value(module, value)) is not None:
            return is_whole(module, bound, depth + 1)
    return is_integer(module, value, depth) or is_plain_number(module, value)


def _is_float(module: ModuleIndex, value: ast.expr) -> bool:
    match value:
        case ast.Constant(value=number):
            return isinstance(number, float)
        case ast.Call(func=ast.Name(id="float")):
            return True
        case ast.Call(func=ast.Attribute(attr=name, value=inner)) if name in _READS:
            return _is_float(module, inner)
    return is_float(module, value)


def _is_number(value: ast.expr) -> bool:
    """``loss.item()``, ``float(loss)``, ``loss.item() * n``"""
    match value:
        case ast.Call(func=ast.Attribute(attr="item")) | ast.Call(func=ast.Name(id="int" | "float")):
            return True
        case ast.BinOp(left=left, right=right):
            return _is_number(left) or _is_number(right)
    return False
