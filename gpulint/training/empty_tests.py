"""Tests for something that is empty: what stands in for it is seldom needed."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import BindingKind, ModuleIndex, last_name

MAX_STEPS = 3
"""Most names between a test and the call that counts."""
_COUNTS = frozenset({"len", "numel", "nelement"})
_EMPTY = {(ast.Eq, 0), (ast.LtE, 0), (ast.Lt, 1)}
_FILLED = {(ast.NotEq, 0), (ast.Gt, 0), (ast.GtE, 1)}
_OF_MASK = frozenset({"sum", "any", "count_nonzero"})
"""Counts of what a mask picks, as far as it matters whether there is any."""
_NUMBERS = frozenset({"isnan", "isinf", "isfinite"})


def says_filled(module: ModuleIndex, test: ast.expr, holds: bool) -> bool:
    """Return whether a test says that something holds elements (``len(boxes) > 0``)."""
    return _says_empty(module, test, not holds)


def is_for_empty(module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a place runs only where something holds no element (the ``else`` of ``if len(boxes) > 0``)."""
    return any(_says_empty(module, test, holds) for test, holds in conditions(module, node))


@query
def _says_empty(module: ModuleIndex, test: ast.expr, holds: bool) -> bool:
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return _says_empty(module, inner, not holds)
        case ast.BoolOp(op=operator, values=parts):
            found = [_says_empty(module, part, holds) for part in parts]
            return any(found) if isinstance(operator, ast.And) is holds else all(found)
        case ast.Compare(left=left, ops=[operator], comparators=[ast.Constant(value=int() | float() as limit)]):
            counted = (type(operator), limit)
            return counted in (_EMPTY if holds else _FILLED) and _is_count(module, left)
        case ast.Call(func=func):
            return not holds and (last_name(func) in _COUNTS or is_of_mask(test))
    return False


def is_of_mask(call: ast.Call) -> bool:
    """Return whether a call tells how many elements a mask picks, or whether any: ``mask.sum()``, ``torch.any(scores >
    0.5)``; not the built-in functions."""
    while isinstance(call.func, ast.Attribute) and call.func.attr == "item" and isinstance(call.func.value, ast.Call):
        call = call.func.value
    names = {last_name(part.func) for part in walk(call) if isinstance(part, ast.Call)}
    return isinstance(call.func, ast.Attribute) and call.func.attr in _OF_MASK and not names & _NUMBERS


def _is_count(module: ModuleIndex, node: ast.expr, steps: int = MAX_STEPS) -> bool:
    """Return whether a value counts elements, or is computed and the function divides by it where it is not zero."""
    match node:
        case ast.Call(func=ast.Name(id="int" | "float"), args=[inner]):
            return _is_count(module, inner, steps)
        case ast.Call(func=func, args=args):
            sized = last_name(func) == "size" and len(args) == 1
            return sized or last_name(func) in _COUNTS or is_of_mask(node) or _is_divisor(module, node)
        case ast.Subscript(value=ast.Attribute(attr="shape")):
            return True
        case ast.Name(id=name) if steps > 0:
            bindings = reaching(module, module.scope(node).lookup(name), node)
            made = [one.value for one in bindings if one.kind is BindingKind.ASSIGN]
            if not made or len(made) < len(bindings):
                return False
            computed = all(isinstance(value, ast.Call | ast.BinOp) for value in made)
            return (computed and _is_divisor(module, node)) or all(
                value is not None and not one.path and _is_count(module, value, steps - 1)
                for one, value in zip(bindings, made, strict=True)
            )
    return False


def _is_divisor(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether the function divides by a value (``loss / num_pos``)."""
    function, text = module.function(node), ast.unparse(node)
    divisions = (part for part in walk(function) if isinstance(getattr(part, "op", None), ast.Div)) if function else ()
    return any(
        ast.unparse(part.value if isinstance(part, ast.AugAssign) else part.right) == text
        for part in divisions
        if isinstance(part, ast.BinOp | ast.AugAssign)
    )
