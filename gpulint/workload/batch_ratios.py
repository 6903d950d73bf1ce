"""Scores that are a ratio over a batch (IoU, Dice, F1): their mean over batches is another number for larger ones."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

_RATIO = regex.compile(
    r"(^|_)(m?iou|mean_?iou|dice|jaccard|f1|f_?score|f_?beta|precision|recall|sensitivity|specificity|auc|auroc|kappa|mcc"
    r"|hausdorff|hd95|assd|average_precision)(\d|_|$)",
    re.IGNORECASE,
)
_LOSS = regex.compile(r"loss|criterion", re.IGNORECASE)
_ADDS = frozenset({"append", "extend"})
MAX_VALUES = 8
"""Most variables that a score is followed through to where it is added up."""


def averages_ratios(project: Project, where: NodeRef) -> bool:
    """Return whether a loop adds up, batch by batch, what a function computes as a ratio over a whole batch."""
    added = {name for part in walk(where.node) for name in _added(part)}
    for part in walk(where.node):
        match part:
            case ast.AugAssign(op=ast.Add(), value=value) | ast.Call(args=[value]) if _is_addition(part):
                if any(_is_ratio(project, where.module, inner) for inner in walk(value)):
                    return True
            case ast.Assign(targets=[target], value=ast.Call() as call) if _is_ratio(project, where.module, call):
                names = [one.id for one in walk(target) if isinstance(one, ast.Name)][:MAX_VALUES]
                if not added.isdisjoint(names):
                    return True
    return False


def _is_addition(part: ast.AST) -> bool:
    return isinstance(part, ast.AugAssign) or (
        isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr in _ADDS
    )


def _added(part: ast.AST) -> set[str]:
    """The names whose values a statement adds to a sum or a list."""
    match part:
        case ast.AugAssign(op=ast.Add(), value=value):
            pass
        case ast.Call(func=ast.Attribute(attr=attr), args=[value]) if attr in _ADDS:
            pass
        case _:
            return set()
    return {one.id for one in walk(value) if isinstance(one, ast.Name)}


def _is_ratio(project: Project, module: ModuleIndex, call: ast.AST) -> bool:
    """Return whether a call has the name of such a score, and no function of the tree that keeps samples apart."""
    if not isinstance(call, ast.Call) or len(call.args) < 2 or not _RATIO.search(last_name(call.func)):
        return False
    if _LOSS.search(last_name(call.func)):
        return False
    return not any(_is_by_sample(callee.node) for callee in project.fact(Resolver).callees(module, call))


def _is_by_sample(function: ast.AST) -> bool:
    """Return whether a function reduces each sample by itself: ``sum(dim=(1, 2, 3))``, ``view(len(x), -1).sum(1)``."""
    return isinstance(function, FUNCTIONS) and any(
        isinstance(part, ast.Call)
        and last_name(part.func) in ("sum", "mean")
        and any(
            not (isinstance(value, ast.Constant) and value.value == 0)
            for value in (*part.args[:1], *(k.value for k in part.keywords if k.arg in ("dim", "axis")))
            if isinstance(value, ast.Constant | ast.Tuple | ast.List | ast.UnaryOp)
        )
        for part in walk(function)
    )
