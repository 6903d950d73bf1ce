"""Which loaders of a module belong together: those of a training and its evaluation get the same options."""

from __future__ import annotations

import ast

from gpulint.training.loader_calls import Loader


def are_siblings(one: Loader, other: Loader) -> bool:
    """Return whether two loaders are of the same class, of the same function, or of the top of the same module."""
    return one.node is not other.node and one.module is other.module and _home(one) is _home(other)


def _home(loader: Loader) -> ast.AST | None:
    function = loader.module.function(loader.node)
    return None if function is None else loader.module.class_of(function) or function
