"""Tensors without elements, of whose copies nothing comes: what ``torch.cat`` begins with."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gpulint.documents.call_syntax import keyword_value

_SIZED = frozenset({"torch.zeros", "torch.ones", "torch.empty", "torch.rand", "torch.randn", "torch.eye"})
"""Functions that take sizes, one by one or in a list."""
_WHOLE = frozenset({"torch.full", "torch.randint", "torch.normal"})
"""Functions that take them in a list, besides other numbers."""


def is_empty(names: frozenset[str], made: ast.Call) -> bool:
    """Return whether a tensor has no elements: ``torch.empty([0, 3])``, ``torch.zeros(0)``, ``torch.tensor([])``."""
    return bool(names) and all(_is_empty(name, made) for name in names)


def _is_empty(name: str, made: ast.Call) -> bool:
    match made.args:
        case [ast.List(elts=[]) | ast.Tuple(elts=[]), *_] if name == "torch.tensor":
            return True
        case [ast.Constant(value=0)] if name == "torch.arange":
            return True
    given: Sequence[ast.expr]
    if (size := keyword_value(made, "size")) is not None:
        given = [size]
    elif name in _WHOLE:
        given = [part for part in made.args if isinstance(part, ast.List | ast.Tuple)][:1]
    else:
        given = made.args if name in _SIZED else []
    sizes = (one for part in given for one in (part.elts if isinstance(part, ast.List | ast.Tuple) else [part]))
    return any(isinstance(one, ast.Constant) and one.value == 0 and one.value is not False for one in sizes)
