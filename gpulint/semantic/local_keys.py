"""Tests for a key of a dictionary that a function fills by itself, and that it never stores."""

from __future__ import annotations

import ast

from gpulint.semantic.path_conditions import conditions
from gpulint.workspace.module_index import FUNCTIONS, BindingKind, ModuleIndex


def asks_for_missing_key(module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a place only runs if a local dictionary has a key that nothing stores (``if "norm" in stats``)."""
    return any(
        holds and isinstance(test, ast.Compare) and _is_never_true(module, test)
        for test, holds in conditions(module, node)
    )


def _is_never_true(module: ModuleIndex, test: ast.Compare) -> bool:
    match test:
        case ast.Compare(left=ast.Constant(value=key), ops=[ast.In()], comparators=[ast.Name(id=name) as table]):
            pass
        case _:
            return False
    scope = module.scope(table)
    bindings = scope.bindings.get(name, ())
    if not isinstance(scope.node, FUNCTIONS) or any(binding.kind is not BindingKind.ASSIGN for binding in bindings):
        return False
    keys = set[object]()
    for binding in bindings:
        if binding.path or not isinstance(binding.value, ast.Dict):
            return False
        if any(not isinstance(one, ast.Constant) for one in binding.value.keys):
            return False
        keys |= {one.value for one in binding.value.keys if isinstance(one, ast.Constant)}
    for use in module.named.get(name, ()):
        if module.scope(use) is not scope:
            return False
        if isinstance(use.ctx, ast.Store):
            continue
        up = module.syntax.parents.get(use)
        match up:
            case ast.Subscript(value=owner, slice=ast.Constant(value=stored)) if owner is use:
                if isinstance(up.ctx, ast.Store):
                    keys.add(stored)
            case ast.Compare(comparators=[other]) if other is use:
                pass
            case ast.Return():
                pass
            case ast.Tuple() if isinstance(module.syntax.parents.get(up), ast.Return):
                pass
            case _:
                return False  # handed over, so that others may store
    return bool(bindings) and key not in keys
