"""Samples that a program collects in a list after it has moved them to a device, or computed them there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint.documents.python import walk
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workload.gpu_samples import gets_device
from gpulint.workspace.module_index import ModuleIndex, last_name

_TO_HOST = frozenset({"cpu", "numpy", "tolist", "item"})
_STEPS = 3
"""Assignments back from a sample, over which its move is looked for."""


def collects_moved(module: ModuleIndex, source: ast.AST) -> bool:
    """Return whether what a loader reads is a list to which its function appends samples that may be on a GPU."""
    if not isinstance(source, ast.Name):
        return False
    return any(
        isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == source.id
        and module.function(call) is module.function(source)
        and any(_was_moved(module, value, _STEPS) for value in call.args)
        for call in module.calls_by_name.get("append", [])
    )


def _was_moved(module: ModuleIndex, value: ast.expr, steps: int) -> bool:
    """Return whether a value, or what it was computed from or holds, was moved to a device and not back."""
    match value:
        case ast.Call(func=ast.Attribute(attr=attr)) if attr in _TO_HOST:
            return False
        case ast.Call(func=ast.Attribute(attr="to"), args=[ast.Constant(value="cpu"), *_]):
            return False
        case ast.Call() if _moves(value):
            return True
        case ast.Name():
            return steps > 0 and any(_was_moved(module, one, steps - 1) for one in _set_to(module, value))
        case ast.Call(func=ast.Attribute(value=inner), args=args, keywords=keywords):
            parts = [inner, *args, *(keyword.value for keyword in keywords)]
        case ast.Call(args=args, keywords=keywords):
            parts = [*args, *(keyword.value for keyword in keywords)]
        case _:
            parts = [part for part in ast.iter_child_nodes(value) if isinstance(part, ast.expr)]
    return any(_was_moved(module, part, steps) for part in parts)


def _moves(call: ast.Call) -> bool:
    return last_name(call.func) == "cuda" or (last_name(call.func) == "to" and gets_device(call))


def _set_to(module: ModuleIndex, name: ast.Name) -> Iterator[ast.expr]:
    """Yield the values of a variable, and those that its function puts into it (``batch["latents"] = latents``)."""
    for one in reaching(module, module.scope(name).lookup(name.id), name):
        if isinstance(one.value, ast.expr):
            yield one.value
    for part in walk(module.function(name) or module.syntax.tree):
        match part:
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=held))], value=value) if held == name.id:
                yield value
