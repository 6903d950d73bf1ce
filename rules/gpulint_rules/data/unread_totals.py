"""Sums, lists, tables and meters of a function that a step adds to and that nothing reads."""

from __future__ import annotations

import ast

from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex

_ADDS = frozenset({"append", "extend", "update", "add", "reset"})
"""Methods that change a list or a meter, and tell nothing of it."""
_FINDS = frozenset({"locals", "vars", "eval", "exec"})
"""Functions that find a variable without its name."""


def unread_total(module: ModuleIndex, node: ast.expr) -> str:
    """The variable of a function to which the statement of a value adds it, and that nothing reads; else empty."""
    function = module.function(node)
    if not isinstance(function, FUNCTIONS) or _FINDS & module.calls_by_name.keys():
        return ""
    statement = next((up for up in module.syntax.ancestors(node) if isinstance(up, ast.stmt)), None)
    target: ast.expr | None = None
    match statement:
        case ast.AugAssign(target=added):
            target = added
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr=name))) if name in _ADDS:
            target = owner
    while isinstance(target, ast.Subscript):
        target = target.value
    if not isinstance(target, ast.Name):
        return ""
    scope = module.scope(target)
    bindings = scope.bindings.get(target.id)
    if not bindings or scope.node is not function or any(binding.scope is not scope for binding in bindings):
        return ""
    if any(target.id in other.outer for other in module.scope_of.values()):
        return ""
    uses = [use for use in module.named.get(target.id, ()) if module.scope(use).lookup(target.id) is bindings]
    return target.id if uses and all(_reads_nothing(module, use) for use in uses) else ""


def _reads_nothing(module: ModuleIndex, use: ast.Name) -> bool:
    """Return whether a use starts the variable, adds to it, or only asks it for a key to add to."""
    up = module.syntax.parents.get(use)
    if isinstance(use.ctx, ast.Store):
        return isinstance(up, ast.Assign | ast.AugAssign | ast.AnnAssign)
    below: ast.AST = use
    while isinstance(up, ast.Subscript) and up.value is below:
        if isinstance(up.ctx, ast.Store):
            return True
        below, up = up, module.syntax.parents.get(up)
    match up:
        case ast.Attribute(attr=name) if name in _ADDS:
            call = module.syntax.parents.get(up)
            return isinstance(call, ast.Call) and isinstance(module.syntax.parents.get(call), ast.Expr)
        case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[asked]) if asked is use:
            return isinstance(module.syntax.parents.get(up), ast.If)
    return False
