"""Tests of the rest of a division by its name (``rest = step % 100``), in other forms, and of powers of two."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.values.bound_parts import bound_part
from gpulint.workspace.module_index import ModuleIndex


def named_divisor(module: ModuleIndex, name: ast.Name | ast.Attribute) -> ast.expr | None:
    """Return the divisor where a test compares a name for a rest with a number, or asks whether there is one: ``rest
    == 0`` of ``rest = step % 100`` or ``_, rest = divmod(step, 100)``."""
    up = module.syntax.parents.get(name)
    if isinstance(up, ast.Compare) and (up.left is not name or not isinstance(up.ops[0], ast.Eq | ast.NotEq)):
        return None
    if not isinstance(up, ast.Compare | ast.UnaryOp | ast.BoolOp | ast.If):
        return None
    if isinstance(name, ast.Attribute):
        return _kept_divisor(module, name)
    bindings = module.scope(name).lookup(name.id)
    if len(bindings) != 1:
        return None
    match bindings[0].value, bindings[0].path:
        case ast.BinOp(op=ast.Mod(), right=divisor), ():
            return divisor
        case ast.Call(func=ast.Name(id="divmod"), args=[_, divisor]), (1,):
            return divisor
    return None


def _kept_divisor(module: ModuleIndex, attribute: ast.Attribute) -> ast.expr | None:
    """The divisor of ``self.count = (self.count + 1) % 100``, where all else that sets it is a constant."""
    owner = (
        module.class_of(attribute) if isinstance(attribute.value, ast.Name) and attribute.value.id == "self" else None
    )
    stores = module.attributes.get((owner, attribute.attr), []) if owner is not None else []
    values = [bound_part(one) for one in stores]
    rests = [one for one in values if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mod)]
    others = [one for one in values if one not in rests]
    return rests[0].right if rests and all(isinstance(one, ast.Constant) for one in others) else None


def is_power_of_two(test: ast.AST, holds: bool) -> bool:
    """``step & (step - 1) == 0``, which holds less and less often."""
    match test:
        case ast.Compare(
            left=ast.BinOp(
                left=now, op=ast.BitAnd(), right=ast.BinOp(left=again, op=ast.Sub(), right=ast.Constant(value=1))
            ),
            ops=[ast.Eq()],
            comparators=[ast.Constant(value=0)],
        ):
            return holds and ast.dump(now) == ast.dump(again)
    return False


def passes_multiple(node: ast.AST) -> bool:
    """``step // 100 > last // 100`` and ``step & 127``, which change with some steps only."""
    match node:
        case ast.Compare(
            left=ast.BinOp(op=ast.FloorDiv(), right=divisor),
            ops=[ast.NotEq() | ast.Gt() | ast.Lt()],
            comparators=[ast.BinOp(op=ast.FloorDiv(), right=again)],
        ):
            return ast.dump(divisor) == ast.dump(again) and getattr(divisor, "value", None) != 1
        case ast.BinOp(left=ast.Name() | ast.Attribute(), op=ast.BitAnd(), right=ast.Constant(value=int(mask))):
            return mask > 0 and mask & (mask + 1) == 0
    return False


def called_divisor(node: ast.AST) -> ast.expr | None:
    """The divisor of ``np.mod(step, 100)``."""
    match node:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="np" | "numpy" | "math"), attr="mod" | "fmod"), args=[_, by]
        ):
            return by
    return None


def holds_mostly(module: ModuleIndex, rest: ast.AST, test: ast.expr, holds: bool) -> bool:
    """Return whether a place under a test that holds, or does not, runs where there is a rest, which is the case for
    all but every N-th number: ``if step % 10:``, the ``else`` of ``if step % 10 == 0:``."""
    inner = rest
    match module.syntax.parents.get(rest):
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() as operator]) as compared if left is rest:
            inner, holds = compared, holds is isinstance(operator, ast.NotEq)
    while inner is not test:
        match module.syntax.parents.get(inner):
            case ast.UnaryOp(op=ast.Not()) as up:
                inner, holds = up, not holds
            case ast.BoolOp() as up:
                inner = up
            case _:
                return False
    return holds


def is_in_most_rounds(module: ModuleIndex, test: ast.expr, holds: bool) -> bool:
    """``if step % 10:``, and the ``else`` of ``if step % 10 == 0:``, in all steps but every tenth"""
    if any(isinstance(part, ast.BoolOp) for part in walk(test)):
        return False
    return any(
        isinstance(part, ast.BinOp)
        and isinstance(part.op, ast.Mod)
        and getattr(part.right, "value", None) != 2
        and holds_mostly(module, part, test, holds)
        for part in walk(test)
    )
