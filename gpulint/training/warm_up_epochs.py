"""Places that only the first epochs of a training reach: ``if epoch < args.warm_up: ...``."""

from __future__ import annotations

import ast
import re

from gpulint import regex
from gpulint.semantic.path_conditions import conditions, parts_of
from gpulint.workspace.module_index import LoopNode, ModuleIndex, last_name

_WARM_UP = regex.compile(r"warm_?ups?(_|$|\d)|burn_?in(_|$)|(^|_)pre_?(train|heat)(ing)?_?epochs?$", re.IGNORECASE)
"""Names of the number of epochs before the training proper."""
_EPOCH = regex.compile(r"(^|_)(epochs?|ep)(_|$)", re.IGNORECASE)
_FEW = 5
"""Most epochs, written out, that are the first ones of many (assumed)."""
_BELOW = (ast.Lt, ast.LtE)
_ABOVE = (ast.Gt, ast.GtE)


def is_in_warm_up(module: ModuleIndex, node: ast.AST, loop: LoopNode) -> bool:
    """Return whether a place in a loop over epochs is reached in the first few alone."""
    return loop in module.syntax.ancestors(node) and any(
        _is_early(part, wanted)
        for test, holds in conditions(module, node, loop)
        for part, wanted in parts_of(test, holds)
    )


def _is_early(part: ast.expr, wanted: bool) -> bool:
    match part:
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            below, above = isinstance(operator, _BELOW), isinstance(operator, _ABOVE)
            return (below is wanted and (below or above) and _is_epoch(left) and _is_first(right)) or (
                above is wanted and (below or above) and _is_epoch(right) and _is_first(left)
            )
    return False


def _is_epoch(node: ast.expr) -> bool:
    return bool(_EPOCH.search(last_name(node))) and not _WARM_UP.search(last_name(node))


def _is_first(limit: ast.expr) -> bool:
    if isinstance(limit, ast.Constant):
        return type(limit.value) is int and limit.value <= _FEW
    return bool(_WARM_UP.search(last_name(limit)))
