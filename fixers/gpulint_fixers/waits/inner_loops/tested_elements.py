"""Elements of a tensor that an inner loop compares with numbers (``if labels[i, j] == END: break``) and also reads."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.workspace.module_index import ModuleIndex

_EQUAL = (ast.Eq, ast.NotEq)


def path(element: ast.expr) -> tuple[ast.expr, list[ast.expr]]:
    """The tensor and the indices of ``scores[i, j]`` and ``scores[i][j]``."""
    indices = list[ast.expr]()
    while isinstance(element, ast.Subscript):
        own = element.slice
        indices[:0] = own.elts if isinstance(own, ast.Tuple) else [own]
        element = element.value
    return element, indices


def is_tested(module: ModuleIndex, element: ast.expr) -> bool:
    """Return whether an element is one side of a condition that asks whether it equals something."""
    match module.syntax.parents.get(element):
        case ast.Compare(left=left, ops=[op], comparators=[other]) as test if isinstance(op, _EQUAL):
            up = module.syntax.parents.get(test)
            return element in (left, other) and isinstance(up, ast.If) and up.test is test
    return False


def has_axes(module: ModuleIndex, tensor: ast.Name) -> bool:
    """Return whether the function around a tensor indexes it along several axes at once (``labels[i, j]``), which no
    list allows, and counts along one of them (``labels.shape[1]``)."""
    function = module.function(tensor)
    if function is None or f"{tensor.id}.shape[" not in module.syntax.text(function):
        return False
    return any(
        isinstance(part, ast.Subscript)
        and isinstance(part.value, ast.Name)
        and part.value.id == tensor.id
        and isinstance(part.slice, ast.Tuple)
        for part in walk(function)
    )
