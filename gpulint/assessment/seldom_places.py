"""Places that are reached in few rounds, though by no count of them: the best so far, once, for what is empty."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.path_conditions import conditions, parts_of
from gpulint.training.empty_tests import is_for_empty
from gpulint.workspace.module_index import FUNCTIONS, last_name

if TYPE_CHECKING:
    from gpulint.workspace.module_index import FunctionNode, ModuleIndex

_BEST = regex.compile(
    r"(^|_)(best|lowest|highest)(_|$)|^(min|max)(imum)?_(\w+_)?(loss|acc(uracy)?|score|error|dice|m?iou|f1|auc|psnr|bleu)",
    re.IGNORECASE,
)
"""Names of the best value so far."""
_IS_BEST = regex.compile(
    r"^(is|was|new|found|got)_?(\w+_)?best(_|$)|(^|_)(improved|better)$"
    r"|^best_(?!path|file|dir|model|only|state|weights|ckpt|checkpoint|epoch|save|param)\w+$",
    re.IGNORECASE,
)
"""Names of what says whether a value is the best so far."""
_VARIABLES = ast.Name | ast.Attribute


def is_seldom(module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a place is reached in few rounds, though by no count of them."""
    return is_for_empty(module, node) or _is_of_best(module, node) or _happens_once(module, node)


def _is_of_best(module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether the place is only reached by the best so far: ``if score > best_score``, ``if is_best``, or ``if
    score > top`` where the function has ``top = score``."""
    return any(
        wanted and (_IS_BEST.search(last_name(part)) if isinstance(part, _VARIABLES) else _is_best(module, node, part))
        for test, holds in conditions(module, node)
        for part, wanted in parts_of(test, holds)
    )


def _is_best(module: ModuleIndex, node: ast.AST, part: ast.expr) -> bool:
    """Return whether a comparison asks for a value that is better than the best so far."""
    return (
        isinstance(part, ast.Compare)
        and isinstance(part.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE)
        and (
            any(_BEST.search(last_name(side)) for side in (part.left, *part.comparators))
            or _is_kept(module, node, part.left, part.comparators[0])
        )
    )


def _is_kept(module: ModuleIndex, node: ast.AST, one: ast.expr, other: ast.expr) -> bool:
    """Return whether the function of a place sets one of two compared values to the other one."""
    if not all(isinstance(side, ast.Name | ast.Attribute | ast.Subscript) for side in (one, other)):
        return False
    texts = {ast.unparse(one), ast.unparse(other)}
    return any(texts == pair for pair in _assignments(module, module.function(node)))


@query
def _assignments(module: ModuleIndex, function: FunctionNode | None) -> list[set[str]]:
    """The targets of the assignments of a function, each with its value, where that is a variable."""
    return [
        {ast.unparse(part.targets[0]), ast.unparse(part.value)}
        for part in walk(function or module.syntax.tree)
        if isinstance(part, ast.Assign) and isinstance(part.value, ast.Name | ast.Attribute)
    ]


def _happens_once(module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether the branch of the place switches itself off (``if late and not saved: save(); saved = True``)."""
    for up in module.syntax.ancestors(node):
        if isinstance(up, FUNCTIONS):
            return False
        if isinstance(up, ast.If):
            asked = {ast.unparse(part) for part in walk(up.test) if isinstance(part, ast.Name | ast.Attribute)}
            for statement in up.body:
                match statement:
                    case ast.Assign(targets=[target], value=ast.Constant(value=bool())) if ast.unparse(target) in asked:
                        return True
    return False
