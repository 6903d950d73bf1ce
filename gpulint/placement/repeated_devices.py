"""Devices that a function reads off a tensor which it has: what it puts there is beside that tensor, wherever it is."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.semantic.argument_binding import parameters
from gpulint.workspace.module_index import FUNCTIONS

if TYPE_CHECKING:
    from gpulint.workspace.module_index import FunctionNode

MODEL = regex.compile(r"(^|_)(model|net|network|encoder|extractor|backbone|vae)$", re.IGNORECASE)
SETTINGS = ("self", "args", "cfg", "config", "opt")
"""What has a device other than that of a tensor."""


def repeats_device(function: FunctionNode | ast.Lambda, value: ast.expr) -> bool:
    """Return whether a device is that of a tensor which the function itself has, or is given other than to make an
    object of it: ``zeros(3, device=sample.device)``, also through a variable."""
    if isinstance(value, ast.Name):
        made = [part.value for part in walk(function) if isinstance(part, ast.Assign) and _sets(part, value.id)]
        return bool(made) and all(not isinstance(one, ast.Name) and repeats_device(function, one) for one in made)
    if not isinstance(value, ast.Attribute) or value.attr != "device":
        return False
    root = value.value
    while isinstance(root, ast.Subscript):
        root = root.value
    if not isinstance(root, ast.Name) or root.id in SETTINGS or MODEL.search(root.id):
        return False
    if isinstance(function, FUNCTIONS) and function.name != "__init__" and root.id in parameters(function):
        return True
    stored = (part for part in walk(function) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store))
    return any(part.id == root.id for part in stored)


def _sets(statement: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in statement.targets)
