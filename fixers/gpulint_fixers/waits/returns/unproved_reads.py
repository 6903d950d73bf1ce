"""Values beside those that a fix keeps on the GPU, which may read from it as well: all are changed, or none."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.placement.tensor_location import TensorLocations
from gpulint.project import Project
from gpulint.workspace.module_index import ModuleIndex
from gpulint_fixers.waits.device_reads import device_read

_OF_TENSORS = frozenset({"detach", "cpu"})
"""Methods that numbers and arrays of NumPy do not have."""
_NUMBERS = frozenset({"float", "int", "bool"})


def has_tensor_methods(value: ast.expr) -> bool:
    """Return whether what a value reads has a method of tensors alone: ``float(loss.detach())``."""
    match value:
        case ast.Call(func=ast.Name(id=name), args=[inner]) if name in _NUMBERS:
            return has_tensor_methods(inner)
        case ast.Call(func=ast.Attribute(attr=name, value=inner)):
            return name in _OF_TENSORS or has_tensor_methods(inner)
    return False


def may_read(project: Project, module: ModuleIndex, value: ast.expr) -> bool:
    """Return whether a value may read a number from the GPU: ``score.item()``, ``float(loss.detach()) / count``."""
    for part in walk(value):
        if not isinstance(part, ast.Call) or (read := device_read(module, part)) is None:
            continue
        plain = isinstance(read.whole, ast.Call) and isinstance(read.whole.func, ast.Name) and read.cut < 0
        if plain and read.whole is part and not has_tensor_methods(part) and not _has_item(part):
            continue  # of a plain number, as far as anything tells
        if not project.fact(TensorLocations).is_host(module, read.tensor):
            return True
    return False


def _has_item(value: ast.expr) -> bool:
    return any(isinstance(part, ast.Attribute) and part.attr == "item" for part in walk(value))
