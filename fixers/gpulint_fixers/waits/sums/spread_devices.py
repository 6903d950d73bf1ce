"""Devices that a loop counts through: what each round computes is on a GPU of its own."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.workspace.module_index import BindingKind, ModuleIndex


def is_spread(module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether the function around a place, or its class, goes through the GPUs by number (``f"cuda:{i}"``)."""
    function, owner = module.function(node), module.class_of(node)
    return any(
        module.function(device) is function or (owner is not None and module.class_of(device) is owner)
        for device in _counted(module)
    )


@query
def _counted(module: ModuleIndex) -> tuple[ast.expr, ...]:
    """Expressions of a module that name a GPU by the variable of a loop."""
    moves = (call for call in module.calls_by_name.get("cuda", ()) if isinstance(call.func, ast.Attribute))
    named = (
        _whole(module, text)
        for text in module.syntax.of(ast.Constant)
        if isinstance(text.value, str) and text.value.startswith("cuda")
    )
    return tuple(one for one in (*moves, *named) if any(_is_loop_variable(module, part) for part in _numbers(one)))


def _whole(module: ModuleIndex, text: ast.Constant) -> ast.expr:
    """The expression that a text is a part of: ``f"cuda:{i}"``, ``"cuda:" + str(i)``, ``torch.device("cuda", i)``."""
    found: ast.expr = text
    up = module.syntax.parents.get(text)
    up = module.syntax.parents.get(up) if isinstance(up, ast.Attribute) else up  # "cuda:{}".format(i)
    if isinstance(up, ast.JoinedStr | ast.BinOp | ast.Call):
        found = up
    return found


def _numbers(device: ast.expr) -> list[ast.AST]:
    """Return what an expression takes a number of a GPU from."""
    if not isinstance(device, ast.Call):
        return walk(device)
    return [part for one in (*device.args, *(keyword.value for keyword in device.keywords)) for part in walk(one)]


def _is_loop_variable(module: ModuleIndex, part: ast.AST) -> bool:
    bindings = module.scope(part).lookup(part.id) if isinstance(part, ast.Name) else []
    return bool(bindings) and all(binding.kind is BindingKind.LOOP for binding in bindings)
