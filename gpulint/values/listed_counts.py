"""Tests that hold at counts that are listed, such as ``step in eval_steps`` or ``step == 0``."""

from __future__ import annotations

import ast

from gpulint.values.counter_names import is_counter
from gpulint.workspace.module_index import LOOPS, BindingKind, ModuleIndex, last_name


def is_at_listed(module: ModuleIndex, test: ast.Compare, holds: bool) -> bool:
    """Return whether a test that holds (or fails) compares a counter with one count, or with those of a list."""
    operator, left = test.ops[0], _plain(test.left)
    if holds and isinstance(operator, ast.Eq):
        return is_counter(left)
    listed = isinstance(operator, ast.In) if holds else isinstance(operator, ast.NotIn) and _is_whole(module, test)
    return listed and (is_counter(left) or _counts_up(module, left))


def _plain(node: ast.expr) -> ast.expr:
    """``step`` of ``str(step + 1)``"""
    match node:
        case ast.Call(func=ast.Name(id="int" | "str" | "float"), args=[inner]):
            return _plain(inner)
        case ast.BinOp(left=inner, op=ast.Add() | ast.Sub(), right=ast.Constant()):
            return _plain(inner)
    return node


def _is_whole(module: ModuleIndex, test: ast.Compare) -> bool:
    """``if step not in eval_steps: continue``"""
    return isinstance(module.syntax.parents.get(test), ast.If)


def _counts_up(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a loop adds to what is compared, by one or by a size (``done += 1``)."""
    owner = module.class_of(node)
    if isinstance(node, ast.Name):
        bindings = module.scope(node).lookup(node.id)
    elif isinstance(node, ast.Attribute) and last_name(node.value) == "self" and owner is not None:
        bindings = module.attributes.get((owner, node.attr), [])
    else:
        return False
    return any(
        one.kind is BindingKind.AUGMENT
        and isinstance(up := one.node, ast.AugAssign)
        and isinstance(up.op, ast.Add)
        and any(isinstance(around, LOOPS) for around in module.syntax.ancestors(up))
        for one in bindings
    )
