"""Tensors of one number that may have an axis, which no format of numbers accepts: ``sum(0, keepdim=True)``."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, last_name

MAX_STEPS = 4
"""Most expressions between a tensor and what gives it an axis."""
_MAKES_AXIS = frozenset({"zeros", "ones", "empty", "full"})
_GIVES_AXIS = frozenset({"unsqueeze", "view", "reshape", "expand"})


@query
def keeps_axis(project: Project, module: ModuleIndex, tensor: ast.expr, steps: int = MAX_STEPS) -> bool:
    """Return whether a tensor may have an axis of length 1, by what computes it, also in functions of the tree."""
    if not steps:
        return False
    match tensor:
        case ast.Name(id=name):
            bound = reaching(module, module.scope(tensor).lookup(name), tensor)
            values = (one.value for one in bound if one.value is not None and one.value is not tensor)
            return any(keeps_axis(project, module, value, steps - 1) for value in values)
        case ast.BinOp(left=left, right=right):
            return any(keeps_axis(project, module, part, steps - 1) for part in (left, right))
        case ast.Subscript(value=inner):
            return keeps_axis(project, module, inner, steps - 1)
        case ast.Call(func=func, args=args):
            if _makes_axis(tensor):
                return True
            owner = [func.value] if isinstance(func, ast.Attribute) else []
            callees = project.fact(Resolver).callees(module, tensor)
            if any(isinstance(one.node, FUNCTIONS) and _returns_axis(one.node) for one in callees):
                return True
            return any(keeps_axis(project, module, part, steps - 1) for part in (*owner, *args[:1]))
    return False


def _makes_axis(call: ast.Call) -> bool:
    name, first = last_name(call.func), [part.value for part in call.args[:1] if isinstance(part, ast.Constant)]
    if name in _MAKES_AXIS:
        return first == [1]
    return _keeps(call) or (name in _GIVES_AXIS and first in ([0], [1]))


def _returns_axis(function: ast.AST) -> bool:
    """Return whether a function reduces to one number with an axis (``correct.sum(0, keepdim=True)``)."""
    return any(isinstance(part, ast.Call) and _keeps(part) for part in walk(function))


def _keeps(call: ast.Call) -> bool:
    if last_name(call.func) not in ("sum", "mean"):
        return False
    kept = [*call.args[1:2], *(word.value for word in call.keywords if word.arg == "keepdim")]
    return any(isinstance(value, ast.Constant) and value.value is True for value in kept)
