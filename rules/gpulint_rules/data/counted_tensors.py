"""Tensors of a counter: ``torch.tensor(index)`` in a loop over ``range(n)``, for which the GPU could count itself."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.workspace.module_index import ModuleIndex, last_name
from gpulint_rules.data.wait_counts import inner_loops


def is_of_counter(module: ModuleIndex, made: ast.Call, loop: ast.AST) -> bool:
    """Return whether ``torch.tensor(...)`` gets a number that only depends on what loops inside of ``loop`` count, and
    on settings (``self.config.length - 1 - index``)."""
    if len(made.args) != 1:
        return False
    counters = {name for inner in inner_loops(module, made, loop) for name in _counters(inner)}
    parts = walk(made.args[0])
    allowed = (
        ast.Name,
        ast.Attribute,
        ast.Constant,
        ast.BinOp,
        ast.UnaryOp,
        ast.operator,
        ast.unaryop,
        ast.expr_context,
    )
    if not all(isinstance(part, allowed) for part in parts):
        return False
    names = {part.id for part in parts if isinstance(part, ast.Name)} - {"self"}
    heads = {_head(part) for part in parts if isinstance(part, ast.Attribute)}
    return bool(names & counters) and names <= counters | heads


def _counters(loop: ast.AST) -> set[str]:
    match loop:
        case ast.For(target=ast.Name(id=name), iter=ast.Call() as source) if last_name(source.func) in (
            "range",
            "trange",
        ):
            return {name}
        case ast.For(target=ast.Tuple(elts=[ast.Name(id=name), *_]), iter=ast.Call(func=ast.Name(id="enumerate"))):
            return {name}
    return set()


def _head(attribute: ast.expr) -> str:
    """``config`` of ``config.length``, by whose name settings go."""
    while isinstance(attribute, ast.Attribute):
        attribute = attribute.value
    name = attribute.id if isinstance(attribute, ast.Name) else ""
    return name if name in ("self", "config", "cfg", "args", "opt", "hparams", "params") else ""
