"""Tensors of one number that may have an axis, which no format of numbers accepts: ``sum(0, keepdim=True)``."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import FUNCTIONS, Binding, ModuleIndex, last_name

MAX_STEPS = 4
"""Most expressions between a tensor and what gives it an axis."""
_MAKES_AXIS = frozenset(
    "zeros ones empty full rand randn new_zeros new_ones new_empty new_full FloatTensor DoubleTensor Tensor".split()
)
"""What takes a shape."""
_TAKES_NUMBERS = frozenset("tensor as_tensor new_tensor FloatTensor DoubleTensor LongTensor Tensor".split())
"""What takes numbers, of which a list of one makes an axis."""
_KEEPS_SHAPE = frozenset({"detach", "clone", "float", "double", "half", "to", "cuda", "contiguous", "type_as"})
_GIVES_AXIS = frozenset({"unsqueeze", "view", "reshape", "expand"})


@query
def keeps_axis(project: Project, module: ModuleIndex, tensor: ast.expr, steps: int = MAX_STEPS) -> bool:
    """Return whether a tensor may have an axis of length 1, by what computes it, also in functions of the tree."""
    if steps <= 0:
        return False
    if not isinstance(tensor, ast.Call):
        return any(keeps_axis(project, module, part, steps - 1) for part in _origins(module, tensor))
    if _makes_axis(tensor):
        return True
    owner = [tensor.func.value] if isinstance(tensor.func, ast.Attribute) else []
    callees = project.fact(Resolver).callees(module, tensor)
    if any(isinstance(one.node, FUNCTIONS) and _returns_axis(one.node) for one in callees):
        return True
    return any(keeps_axis(project, module, part, steps - 1) for part in (*owner, *tensor.args[:1]))


def _origins(module: ModuleIndex, tensor: ast.expr) -> list[ast.expr]:
    """Return the expressions of which any may give a tensor its shape: all values that reach a variable, both branches
    of a choice, both sides of a sum."""
    match tensor:
        case ast.Name(id=name):
            bound = reaching(module, module.scope(tensor).lookup(name), tensor)
            return [part for one in bound for part in _bound(one) if part is not tensor]
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.IfExp(body=body, orelse=orelse):
            return [body, orelse]
        case ast.BoolOp(values=values):
            return values
        case ast.UnaryOp(operand=inner) | ast.Subscript(value=inner) | ast.Starred(value=inner):
            return [inner]
        case ast.NamedExpr(value=inner) | ast.Attribute(attr="data", value=inner):
            return [inner]
    return []


def _bound(binding: Binding) -> list[ast.expr]:
    """Return what a variable gets: ``total += loss`` adds to what it has."""
    match binding.node:
        case ast.AugAssign(target=target, value=added):
            return [target, added]
    value: ast.expr | None = binding.value
    for at in binding.path:
        if isinstance(value, ast.Tuple) and at < len(value.elts):
            value = value.elts[at]
    return [value] if isinstance(value, ast.expr) else []


@query
def is_unreduced(project: Project, module: ModuleIndex, tensor: ast.expr, steps: int = 4 * MAX_STEPS) -> bool:
    """Return whether nothing proves that a loss has no axis: a criterion of the tree reduces one axis alone
    (``x.view(-1, 1).sum(0)``), or it is one of a list of criteria which nobody sees."""
    if steps <= 0:
        return False
    parts = _origins(module, tensor)
    match tensor:
        case ast.ListComp(elt=inner) | ast.GeneratorExp(elt=inner):
            parts = [inner]
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            parts = elements
        case ast.Call():
            return _is_unreduced_call(project, module, tensor, steps)
    return any(is_unreduced(project, module, part, steps - 1) for part in parts)


def _is_unreduced_call(project: Project, module: ModuleIndex, call: ast.Call, steps: int) -> bool:
    name, resolver = last_name(call.func), project.fact(Resolver)
    if callees := [one for one in resolver.callees(module, call) if isinstance(one.node, FUNCTIONS)]:
        return any(
            is_unreduced(project, one.module, value, steps - 1)
            for one in callees
            for value in resolver.returns(one.node)  # type: ignore[arg-type]
        )
    if isinstance(call.func, ast.Name) and name == "sum":
        return any(is_unreduced(project, module, part, steps - 1) for part in call.args[:1])
    if isinstance(call.func, ast.Attribute):
        if name in _KEEPS_SHAPE:
            return is_unreduced(project, module, call.func.value, steps - 1)
        if name in ("sum", "mean"):
            return _keeps(call) or (_reduces_one(call) and _has_axes(call.func.value))
    if _makes_axis(call):
        return True
    return not resolver.call_names(module, call) and _is_one_of_several(project, module, call.func)


def _reduces_one(call: ast.Call) -> bool:
    given = [*call.args[:1], *(word.value for word in call.keywords if word.arg in ("dim", "axis"))]
    return any(isinstance(value, ast.Constant) and isinstance(value.value, int) for value in given)


def _has_axes(tensor: ast.expr) -> bool:
    """``x.view(-1, 1)``, which has an axis left after one is reduced."""
    while isinstance(tensor, ast.Call) and isinstance(tensor.func, ast.Attribute):
        if tensor.func.attr in ("view", "reshape"):
            return len(tensor.args) > 1
        tensor = tensor.func.value
    return False


def _is_one_of_several(project: Project, module: ModuleIndex, criterion: ast.expr) -> bool:
    """``criteria[2]``, also by a name."""
    origins = project.fact(Resolver).points_to(module, criterion)
    return any(isinstance(origin.node, ast.Subscript) for origin in origins)


def _makes_axis(call: ast.Call) -> bool:
    """Return whether a call makes one number with an axis: ``torch.zeros(1)``, ``torch.tensor([0.0])``."""
    name = last_name(call.func)
    first = [*call.args[:1], *(word.value for word in call.keywords if word.arg in ("size", "data"))][:1]
    match first:
        case [ast.List(elts=[_]) | ast.Tuple(elts=[_])]:
            return name in _MAKES_AXIS or name in _TAKES_NUMBERS or name in _GIVES_AXIS
        case [ast.Constant(value=value)]:
            return (name in _MAKES_AXIS and value == 1) or (name in _GIVES_AXIS and value in (0, 1)) or _keeps(call)
    return _keeps(call)


def _returns_axis(function: ast.AST) -> bool:
    """Return whether a function reduces to one number with an axis (``correct.sum(0, keepdim=True)``)."""
    return any(isinstance(part, ast.Call) and _keeps(part) for part in walk(function))


def _keeps(call: ast.Call) -> bool:
    if last_name(call.func) not in ("sum", "mean"):
        return False
    kept = [*call.args[1:2], *(word.value for word in call.keywords if word.arg == "keepdim")]
    return any(isinstance(value, ast.Constant) and value.value is True for value in kept)
