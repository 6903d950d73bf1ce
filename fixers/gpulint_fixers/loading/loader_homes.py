"""Which loaders of a module belong together: those of a training and its evaluation get the same options."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TypeVar

from gpulint.training.loader_calls import Loader

MOST = 8
"""Most loaders that belong together: more of one place are cases of their own."""

T = TypeVar("T")


def by_home(loaders: Iterable[tuple[Loader, T]]) -> dict[ast.AST | None, list[tuple[Loader, T]]]:
    """Return loaders of one module, each with what is known of it, by the class or the function that makes them; None
    is the top of the module. Places with more than a few are left out."""
    found: dict[ast.AST | None, list[tuple[Loader, T]]] = {}
    for loader, known in loaders:
        found.setdefault(_home(loader), []).append((loader, known))
    return {home: items for home, items in found.items() if len(items) <= MOST}


def siblings(homes: dict[ast.AST | None, list[tuple[Loader, T]]], loader: Loader) -> list[T]:
    """Return what is known of the loaders that belong to one."""
    return [known for other, known in homes.get(_home(loader), ()) if other.node is not loader.node]


def _home(loader: Loader) -> ast.AST | None:
    function = loader.module.function(loader.node)
    return None if function is None else loader.module.class_of(function) or function
