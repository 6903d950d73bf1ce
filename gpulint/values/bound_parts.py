"""What a name is bound to where several are set together (``self.count, self.most = 0, most``)."""

from __future__ import annotations

import ast

from gpulint.workspace.module_index import Binding


def bound_part(binding: Binding) -> ast.expr | None:
    """Return the part of the value that a binding takes; None if that is unknown."""
    return part_of(binding.value, binding.path)


def part_of(value: ast.expr | None, path: tuple[int, ...]) -> ast.expr | None:
    """Return the element of a tuple that unpacking takes; None if that is unknown."""
    for index in path:
        value = value.elts[index] if isinstance(value, ast.Tuple) and 0 <= index < len(value.elts) else None
    return value
