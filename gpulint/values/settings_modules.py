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
    """Dotted key -> (value, place) of the constants that the statements of a module set, and its functions.

    Knows ``train = dict(lr=1)`` in the module, and ``config.train = ConfigDict()``, ``train = config.train`` and
    ``return ConfigDict(dict(...))`` in a function.
    """
    found = dict(_statements(module, module.syntax.tree.body, ""))
    for function in module.functions:
        if module.syntax.parents.get(function) is module.syntax.tree:
            found.update(_statements(module, function.body, None))
    return found


def _statements(
    module: ModuleIndex, body: list[ast.stmt], plain: str | None
) -> Iterator[tuple[str, tuple[object, Span]]]:
    """The same of a block; the keys of what is assigned to a plain name begin with the name unless that is None."""
    known: dict[str, str] = {}
    """Names for what stands under a key: ``train = config.train``."""
    for statement in body:
        match statement:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    key = _key(target, known)
                    if isinstance(target, ast.Name):
                        source = next((found for other in (*targets, value) if (found := _key(other, known))), "")
                        known[target.id] = source
                        key = target.id if plain is not None else source
                    yield from _below(module, key, value, MAX_DEPTH)
            case ast.Return(value=ast.Call() | ast.Dict() as value) if plain is None:
                yield from _below(module, "", value, MAX_DEPTH)


def _key(target: ast.expr, known: dict[str, str]) -> str:
    """``train.lr`` of ``config.train.lr``; empty for what is no attribute of a configuration."""
    match target:
        case ast.Name(id=name):
            return known.get(name, "")
        case ast.Attribute(value=ast.Name() | ast.Attribute() as base, attr=name):
            return _joined(_key(base, known), name)
    return ""


def _joined(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def _below(module: ModuleIndex, key: str, value: ast.expr, depth: int) -> Iterator[tuple[str, tuple[object, Span]]]:
    match value:
        case ast.Constant(value=constant) if key:
            yield key, (constant, module.syntax.span(value))
        case ast.Call(func=ast.Name() | ast.Attribute(), args=[], keywords=keywords) if depth:
            for keyword in keywords:
                if keyword.arg is not None:
                    yield from _below(module, _joined(key, keyword.arg), keyword.value, depth - 1)
        case ast.Call(func=ast.Name() | ast.Attribute(), args=[ast.Dict() | ast.Call() as given], keywords=[]) if depth:
            yield from _below(module, key, given, depth - 1)
        case ast.Dict(keys=keys, values=values) if depth:
            for name, held in zip(keys, values, strict=True):
                if isinstance(name, ast.Constant) and isinstance(name.value, str):
                    yield from _below(module, _joined(key, name.value), held, depth - 1)
