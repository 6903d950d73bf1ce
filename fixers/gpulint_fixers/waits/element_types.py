"""Whether the numbers of a tensor are integers, truth values or floats, by what computes it."""

from __future__ import annotations

import ast

from gpulint import regex
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import BindingKind, ModuleIndex

_COMPARES = frozenset({"eq", "ne", "gt", "ge", "lt", "le", "logical_and", "isclose"})
_TESTS = _COMPARES | {"any", "all", "isnan", "isinf", "isfinite", "bool"}
_PLACES = frozenset({"argmax", "argmin", "argsort", "long", "count_nonzero"})
"""What gives integers of 64 bits, whatever it gets."""
_PAIRS = frozenset({"max", "min", "sort", "topk"})
"""What gives values and their places."""
_SAME = frozenset("detach cpu data squeeze unsqueeze view reshape flatten clone cuda to max min".split())
"""What gives numbers of the same type."""
_FLOATS = frozenset(
    "mean norm std var float double half softmax log_softmax sigmoid exp log sqrt true_divide clip_grad_norm_".split()
)
_LOSS = regex.compile(r"loss|entropy|mse|nll")
_DEPTH = 2


def is_about_loss(text: str) -> bool:
    """Return whether a name or expression is that of a loss, which is no integer."""
    return _LOSS.search(text.lower()) is not None or ".mean(" in text


def is_integer(module: ModuleIndex, node: ast.expr, depth: int = 0) -> bool:
    """Return whether a tensor counts something or holds places: ``(found == label).sum()``, ``scores.argmax()``."""
    match node:
        case ast.Call(func=ast.Attribute(attr="sum", value=inner), args=args):
            counted = args[0] if _is_torch(inner) and args else inner
            return is_truth(module, counted) or is_integer(module, counted, depth)
        case ast.Call(func=ast.Attribute(attr=name)) if name in _PLACES:
            return True
        case ast.Call(func=ast.Attribute(attr=name, value=inner), args=args) if name in _SAME:
            if name in ("max", "min") and _is_torch(inner):
                return len(args) == 1 and is_integer(module, args[0], depth)
            return is_integer(module, inner, depth)
        case ast.Attribute(attr="data", value=inner):
            return is_integer(module, inner, depth)
        case ast.Attribute(attr="indices", value=ast.Call(func=ast.Attribute(attr=name))):
            return name in _PAIRS
        case ast.Subscript(value=ast.Call(func=ast.Attribute(attr=name)), slice=ast.Constant(value=1)) if (
            name in _PAIRS
        ):
            return True
        case ast.Subscript(value=ast.Name() | ast.Call() | ast.Subscript() as inner):
            return is_integer(module, inner, depth)
        case ast.Name() if depth < _DEPTH:
            value = only_value(module, node)
            return is_integer(module, value, depth + 1) if value is not None else _is_second_of_pair(module, node)
    return False


def is_float(module: ModuleIndex, node: ast.expr, depth: int = 0) -> bool:
    """Return whether a tensor holds floats: a loss, a mean, a quotient."""
    if is_about_loss(ast.unparse(node)):
        return True
    match node:
        case ast.Call(func=ast.Attribute(attr=name)) if name in _FLOATS:
            return True
        case ast.Call(func=ast.Attribute(attr=name, value=inner)) if name in _SAME or name == "sum":
            return is_float(module, inner, depth)
        case ast.BinOp(op=ast.Div()):
            return True
        case ast.BinOp(left=left, right=right):
            return any(_is_float_constant(side) or is_float(module, side, depth) for side in (left, right))
        case ast.Name(id=name) if depth < _DEPTH:
            if any(ast.unparse(call.func) == f"{name}.backward" for call in module.calls_by_name.get("backward", [])):
                return True
            value = only_value(module, node)
            return value is not None and is_float(module, value, depth + 1)
    return False


def _is_float_constant(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, float)


def is_truth(module: ModuleIndex, node: ast.expr, depth: int = 0) -> bool:
    """Return whether a tensor holds truth values."""
    match node:
        case ast.Compare():
            return True
        case ast.BinOp(op=ast.BitAnd() | ast.BitOr(), left=left, right=right):
            return is_truth(module, left, depth) and is_truth(module, right, depth)
        case ast.UnaryOp(op=ast.Invert(), operand=inner):
            return is_truth(module, inner, depth)
        case ast.Call(func=ast.Attribute(attr="cpu" | "detach", value=inner)):
            return is_truth(module, inner, depth)
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in _TESTS
        case ast.Name() if depth < _DEPTH:
            value = only_value(module, node)
            return value is not None and is_truth(module, value, depth + 1)
    return False


def _is_torch(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "torch"


def _is_second_of_pair(module: ModuleIndex, node: ast.Name) -> bool:
    """``places`` in ``values, places = scores.max(1)``"""
    bindings = reaching(module, module.scope(node).lookup(node.id), node)
    if len(bindings) != 1 or bindings[0].kind is not BindingKind.ASSIGN or bindings[0].path != (1,):
        return False
    match bindings[0].value:
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in _PAIRS
    return False


def only_value(module: ModuleIndex, node: ast.Name) -> ast.expr | None:
    """The one expression that a variable is set to, where it is used."""
    bindings = reaching(module, module.scope(node).lookup(node.id), node)
    if len(bindings) == 1 and bindings[0].kind is BindingKind.ASSIGN and not bindings[0].path:
        return bindings[0].value
    return None
