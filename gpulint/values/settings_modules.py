"""Settings that a Python file writes down, as MMEngine's configurations do: ``train_loader = dict(batch_size=16)``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpulint.source import Span
    from gpulint.workspace.module_index import ModuleIndex

MAX_DEPTH = 6
"""Dictionaries in dictionaries that are read."""


def written(module: ModuleIndex) -> dict[str, tuple[object, Span]]:
    """Dotted key -> (value, place) of the constants that the statements of a module set."""
    found: dict[str, tuple[object, Span]] = {}
    for statement in module.syntax.tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            found.update(_below(module, statement.targets[0].id, statement.value, MAX_DEPTH))
    return found


def _below(module: ModuleIndex, key: str, value: ast.expr, depth: int) -> Iterator[tuple[str, tuple[object, Span]]]:
    match value:
        case ast.Constant(value=constant):
            yield key, (constant, module.syntax.span(value))
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords) if depth:
            for keyword in keywords:
                if keyword.arg is not None:
                    yield from _below(module, f"{key}.{keyword.arg}", keyword.value, depth - 1)
        case ast.Dict(keys=keys, values=values) if depth:
            for name, held in zip(keys, values, strict=True):
                if isinstance(name, ast.Constant) and isinstance(name.value, str):
                    yield from _below(module, f"{key}.{name.value}", held, depth - 1)
