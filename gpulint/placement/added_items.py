"""What a program puts into lists and dictionaries one by one."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.workspace.module_index import BindingKind, ModuleIndex

_FILLS = frozenset({"append", "extend", "insert", "update", "setdefault"})


@query
def added_to(module: ModuleIndex, name: str) -> tuple[ast.expr, ...] | None:
    """Return what a module appends to what a name stands for, or stores under its keys; None if it puts something there
    in another way."""
    parents = module.syntax.parents
    if name in _rewritten(module):
        return None
    found = list[ast.expr]()
    for use in module.uses.get(name, ()):
        up = parents.get(use)
        call = parents.get(up) if up is not None else None
        if isinstance(up, ast.Attribute) and up.attr in _FILLS:
            if up.attr != "append" or not isinstance(call, ast.Call):
                return None
            found += call.args
        elif isinstance(up, ast.Subscript) and isinstance(up.ctx, ast.Store):
            match parents.get(up):
                case ast.Assign(targets=[target], value=value) if target is up:
                    found.append(value)
                case _:
                    return None
    return tuple(found)


@query
def _rewritten(module: ModuleIndex) -> frozenset[str]:
    """Return the names of lists into whose items a loop stores something: ``for batch in kept: batch["x"] = x``."""
    stores = (item.value for item in module.syntax.of(ast.Subscript) if isinstance(item.ctx, ast.Store))
    return frozenset(
        part.id
        for stored in stores
        if isinstance(stored, ast.Name)
        for binding in module.scope(stored).lookup(stored.id)
        if binding.kind is BindingKind.LOOP and binding.value is not None
        for part in walk(binding.value)
        if isinstance(part, ast.Name)
    )
