"""Looks at the first batches of a loader: one batch alone, or a search that stops."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.python import walk

if TYPE_CHECKING:
    from gpulint.workspace.module_index import ModuleIndex

_STEPS = ("backward", "step", "fit")


def is_first(module: ModuleIndex, drawn: ast.Call) -> bool:
    """Return whether an iterator is made for its first batch alone."""
    match module.syntax.parents.get(drawn):
        case ast.Call(func=ast.Name(id="next"), args=[first, *_]):
            return first is drawn
    return False


def is_search(module: ModuleIndex, source: ast.expr) -> bool:
    """Return whether a loop over a loader stops when it has found something (``if len(found) >= 2: break``), and takes
    no training steps."""
    loop = module.syntax.parents.get(source)
    if not isinstance(loop, ast.For) or loop.iter is not source:
        return False
    parts = walk(loop)
    stops = any(isinstance(part, ast.Break | ast.Return) for part in parts)
    return stops and not any(isinstance(part, ast.Attribute) and part.attr in _STEPS for part in parts)
