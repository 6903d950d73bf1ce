"""What a name is bound to where several are set together (``self.count, self.most = 0, most``)."""

from __future__ import annotations

import ast

from gpulint.workspace.module_index import Binding


def bound_part(binding: Binding) -> ast.expr | None:
    """Return the part of the value that a binding takes; None if that is unknown."""
    value = binding.value
    for index in binding.path:
        value = value.elts[index] if isinstance(value, ast.Tuple) and 0 <= index < len(value.elts) else None
    return value
