"""Places that one round of each pass of a loop gets to: ``if step == 0``, ``if i < 1``, ``if first: ...; first =
False``."""

from __future__ import annotations

import ast

from gpulint.semantic.path_conditions import conditions, parts_of
from gpulint.training.first_runs import runs_once
from gpulint.values.counter_names import is_counter
from gpulint.workspace.module_index import BindingKind, LoopNode, ModuleIndex, last_name

_RANGES = ("range", "trange")
_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt,
    ast.LtE: ast.GtE,
    ast.Gt: ast.Lt,
    ast.GtE: ast.LtE,
}
_FIRST: frozenset[tuple[type[ast.cmpop], int, bool]] = frozenset(
    {(ast.Lt, 1, True), (ast.LtE, 0, True), (ast.Gt, 0, False), (ast.GtE, 1, False)}
)
"""Comparisons of a count from zero that hold, or not, in the first round only."""


def is_at_count(module: ModuleIndex, node: ast.AST, loop: ast.AST) -> bool:
    """Return whether a place in a loop is reached at one count of it, once in each pass."""
    if not isinstance(loop, ast.For | ast.AsyncFor | ast.While) or loop not in module.syntax.ancestors(node):
        return False
    return runs_once(module, node) or any(
        _holds_at_one(module, part, wanted, loop)
        for test, holds in conditions(module, node, loop)
        for part, wanted in parts_of(test, holds)
    )


def _holds_at_one(module: ModuleIndex, part: ast.expr, wanted: bool, loop: LoopNode) -> bool:
    if isinstance(part, ast.Name):
        return not wanted and _counts(module, part, loop)  # `if not i`, `if i: continue`
    if not isinstance(part, ast.Compare) or len(part.ops) != 1:
        return False
    left, operator, right = part.left, type(part.ops[0]), part.comparators[0]
    if isinstance(left, ast.Constant):
        left, operator, right = right, _MIRRORED.get(operator, operator), left
    if not isinstance(left, ast.Name) or not isinstance(right, ast.Constant) or type(right.value) is not int:
        return False
    if operator is (ast.Eq if wanted else ast.NotEq):
        return _counts(module, left, loop)
    return (operator, right.value, wanted) in _FIRST and _counts(module, left, loop)


def _counts(module: ModuleIndex, name: ast.Name, loop: LoopNode) -> bool:
    """Return whether a variable is the count of a loop from zero, or one that the loop keeps by hand (``i += 1``)."""
    if isinstance(loop, ast.For | ast.AsyncFor):
        match loop.target:
            case ast.Tuple(elts=[ast.Name(id=count) as first, *_]) if count == name.id:
                return is_counter(first) or (
                    isinstance(loop.iter, ast.Call) and last_name(loop.iter.func) == "enumerate"
                )
            case ast.Name(id=count) if count == name.id:
                return is_counter(name) or (isinstance(loop.iter, ast.Call) and last_name(loop.iter.func) in _RANGES)
    bindings = module.scope(name).lookup(name.id)
    inside = [one for one in bindings if loop in module.syntax.ancestors(one.node)]
    before = [one.value for one in bindings if one not in inside]
    return (
        bool(inside)
        and bool(before)
        and all(isinstance(value, ast.Constant) and value.value == 0 for value in before)
        and all(one.kind is BindingKind.AUGMENT and _adds_one(one.node) for one in inside)
        and any(module.syntax.parents.get(one.node) is loop for one in inside)
    )


def _adds_one(node: ast.AST) -> bool:
    match node:
        case ast.AugAssign(op=ast.Add(), value=ast.Constant(value=1)):
            return True
    return False
