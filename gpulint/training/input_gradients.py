"""Backward passes that train nothing: attacks, saliency maps and others that want the gradient of an input."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.argument_binding import argument_of
from gpulint.workspace.module_index import FunctionNode, ModuleIndex, last_name

_BOUNDS = frozenset("sign sgn clamp clamp_ clip renorm normalize project".split())
"""What the steps of an attack are kept within; those of a training are not."""
_UPDATES = frozenset("step apply_gradients minimize train_on_batch optimize".split())


def only_for_inputs(module: ModuleIndex, backward: ast.Call) -> bool:
    """Return whether the function around ``loss.backward()``, or else the module, reads the gradient of a tensor for
    which it has enabled gradients, and updates no weights."""
    return _reads_input_gradients(module, module.function(backward) or module.syntax.tree)


@query
def _reads_input_gradients(module: ModuleIndex, function: ast.AST) -> bool:
    if not _asks_gradients(module):
        return False
    parts = walk(function)
    inputs = {name for part in parts for name in _asked(part)}
    helpers = [helper for part in parts if isinstance(part, ast.Call) for helper in _reading(module, part, inputs)]
    if not inputs & _read(parts) and not helpers:
        return False
    parts = [*parts, *(part for helper in helpers for part in walk(helper))]
    called = {last_name(part.func) for part in parts if isinstance(part, ast.Call)}
    if called & _UPDATES:
        return False
    return bool(called & _BOUNDS) or not any(_changes(part, inputs) for part in parts)


def _read(parts: Iterable[ast.AST]) -> set[str]:
    """Names of tensors whose gradient is read (``x.grad``)."""
    return {
        part.value.id
        for part in parts
        if isinstance(part, ast.Attribute)
        and part.attr == "grad"
        and isinstance(part.value, ast.Name)
        and isinstance(part.ctx, ast.Load)
    }


def _reading(module: ModuleIndex, call: ast.Call, inputs: set[str]) -> list[FunctionNode]:
    """Functions of the module that are passed one of the tensors and read its gradient: ``fgsm(x, epsilon)``."""
    if not isinstance(call.func, ast.Name):
        return []
    name = call.func.id
    return [
        function
        for function in module.functions
        if function.name == name
        and any(
            isinstance(given := argument_of(function, call, parameter), ast.Name) and given.id in inputs
            for parameter in _read(walk(function))
        )
    ]


@query
def _asks_gradients(module: ModuleIndex) -> bool:
    text = module.syntax.source.text
    return "requires_grad" in text or "retain_grad" in text


def _asked(part: ast.AST) -> list[str]:
    """Names of tensors that a node asks gradients of."""
    match part:
        case ast.Assign(
            targets=[ast.Attribute(value=ast.Name(id=name), attr="requires_grad")], value=ast.Constant(value=True)
        ):
            return [name]
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="requires_grad_" | "retain_grad")):
            return [name]
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as made) if _requires(made):
            return [name]
    return []


def _requires(made: ast.Call) -> bool:
    """``x.clone().requires_grad_()``, ``Variable(x, requires_grad=True)``"""
    return last_name(made.func) == "requires_grad_" or any(
        keyword.arg == "requires_grad" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True
        for keyword in made.keywords
    )


def _changes(part: ast.AST, names: set[str]) -> bool:
    """Return whether one of the tensors is changed in place (``w -= rate * w.grad``, ``w.data.sub_(...)``, ``w.data =
    ...``)."""
    match part:
        case ast.AugAssign(target=target) | ast.Assign(targets=[target]):
            inner = target.value if isinstance(target, ast.Attribute) and target.attr == "data" else target
            changed = isinstance(part, ast.AugAssign) or inner is not target
            return changed and isinstance(inner, ast.Name) and inner.id in names
        case ast.Call(func=ast.Attribute(value=held, attr=method)) if method in ("sub_", "add_", "copy_"):
            inner = held.value if isinstance(held, ast.Attribute) else held
            return isinstance(inner, ast.Name) and inner.id in names
    return False
