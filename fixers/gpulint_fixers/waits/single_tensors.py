"""Variables that hold one tensor for certain, and no list, tuple or table of several."""

from __future__ import annotations

import ast

from gpulint.placement.isinstance_tests import is_collection
from gpulint.query import query
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import Binding, BindingKind, FunctionNode, ModuleIndex, last_name
from gpulint_fixers.waits.device_reads import counts_steps

_TABLES_TOO = frozenset("to cuda clone detach contiguous float half double long int".split())
"""Methods that tables of tensors and batches of tokens have as well, though those take no numbers as keys."""
_METHODS = frozenset(
    "argmax argmin mean sum norm abs squeeze unsqueeze flatten permute transpose view reshape softmax log_softmax "
    "sigmoid tanh relu exp log sqrt round clamp mul div byte eq ne gt ge lt le expand".split()
)
"""Methods of tensors alone, which give one tensor."""
_FUNCTIONS = _METHODS | frozenset(
    "stack cat where zeros ones full rand randn randint arange tensor as_tensor matmul bmm zeros_like ones_like".split()
)
_PAIRS = frozenset({"max", "min", "sort", "topk"})
"""Methods and functions that give two tensors."""
_SIZES = frozenset({"size", "shape", "dim", "ndim", "dtype", "numel", "requires_grad"})
_NAMES = frozenset({"torch", "F", "functional"})
_DEPTH = 3


def is_single_tensor(module: ModuleIndex, name: ast.Name) -> bool:
    """Return whether a variable is one tensor: by what made it, by its annotation, or by how its function uses it.

    A loss of several parts may be a table, and the output of a model a tuple: what calls return is not known.
    """
    if is_collection(module, name):
        return False
    bound = frozenset(reaching(module, module.scope(name).lookup(name.id), name))
    return _holds_tensor(module, name.id, module.function(name), bound)


@query
def _holds_tensor(module: ModuleIndex, name: str, function: FunctionNode | None, bound: frozenset[Binding]) -> bool:
    """Return whether a variable is one tensor where it has what some statements gave it."""
    uses = _uses(module, name, function).get(bound, [])
    if any(_is_of_table(module, use) for use in uses):
        return False
    if bound and all(_binds_tensor(module, one, _METHODS) for one in bound):
        return True
    if any(_shows_tensor(module, use, _METHODS | {"backward"}) for use in uses):
        return True
    if not all(_is_at_number(module, use) for use in uses):
        return False
    both = _METHODS | _TABLES_TOO
    made = bool(bound) and all(_binds_tensor(module, one, both) for one in bound)
    return made or any(_shows_tensor(module, use, both | _SIZES) for use in uses)


@query
def _uses(module: ModuleIndex, name: str, function: FunctionNode | None) -> dict[frozenset[Binding], list[ast.Name]]:
    """The uses of a variable in a function, by what may have given it its value."""
    found = dict[frozenset[Binding], list[ast.Name]]()
    for node in module.named.get(name, []):
        if isinstance(node.ctx, ast.Load) and module.function(node) is function:
            seen = frozenset(reaching(module, module.scope(node).lookup(name), node))
            found.setdefault(seen, []).append(node)
    return found


def _is_of_table(module: ModuleIndex, use: ast.Name) -> bool:
    """``losses["total"]``, ``losses[f"level_{i}"]``, ``losses.items()``, ``del losses[key]``, ``"total" in losses``"""
    match up := module.syntax.parents.get(use):
        case ast.Subscript(value=value, slice=index) if value is use:
            return is_text_key(index) or not isinstance(up.ctx, ast.Load | ast.Store)
        case ast.Attribute(attr=attr):
            return attr in ("items", "keys", "values", "get", "pop", "append", "extend", "update", "setdefault")
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()]):
            return is_text_key(left)
        case ast.Starred() | ast.keyword(arg=None):
            return True
    return False


def is_text_key(index: ast.expr) -> bool:
    """``"total"``, ``f"level_{i}"``, ``prefix + "_loss"``, ``"{}_loss".format(name)``"""
    match index:
        case ast.Constant(value=str()) | ast.JoinedStr():
            return True
        case ast.BinOp(left=left, right=right):
            return is_text_key(left) or is_text_key(right)
        case ast.Call(func=ast.Attribute(attr="format")) | ast.Call(func=ast.Name(id="str")):
            return True
    return False


def _is_at_number(module: ModuleIndex, use: ast.Name) -> bool:
    """Return whether a use takes no entry, or one at a place that a loop counts; keys may be text."""
    up = module.syntax.parents.get(use)
    return not isinstance(up, ast.Subscript) or up.value is not use or _is_number(module, up.slice)


def _is_number(module: ModuleIndex, index: ast.expr) -> bool:
    match index:
        case ast.Constant(value=int()) | ast.Slice():
            return True
        case ast.Tuple(elts=parts):
            return all(_is_number(module, part) for part in parts)
        case ast.BinOp(left=left, right=right):
            return _is_number(module, left) and _is_number(module, right)
        case ast.UnaryOp(operand=inner):
            return _is_number(module, inner)
        case ast.Name():
            return counts_steps(module, index)
    return False


def _shows_tensor(module: ModuleIndex, use: ast.Name, names: frozenset[str]) -> bool:
    """``scores.argmax(1)``, ``scores[:, 0]``, ``scores > 0.5``"""
    match module.syntax.parents.get(use):
        case ast.Attribute(attr=attr):
            return attr in names
        case ast.Subscript(value=value, slice=ast.Tuple(elts=parts)) if value is use:
            return any(isinstance(part, ast.Slice) for part in parts)
        case ast.Call(func=ast.Attribute(attr=attr, value=base), args=[first, *_]) if first is use:
            return last_name(base) in _NAMES and attr in _METHODS | _PAIRS
    return False


def _binds_tensor(module: ModuleIndex, binding: Binding, methods: frozenset[str]) -> bool:
    match binding:
        case Binding(kind=BindingKind.PARAMETER, node=ast.arg(annotation=ast.expr() as annotation)):
            text = annotation.value if isinstance(annotation, ast.Constant) else last_name(annotation)
            return str(text).rpartition(".")[2] == "Tensor"
        case Binding(kind=BindingKind.ASSIGN, path=(), value=ast.expr() as value):
            return _makes_tensor(module, value, methods, 0)
        case Binding(kind=BindingKind.ASSIGN, path=(int(at),), value=ast.Tuple(elts=parts)) if at < len(parts):
            return _makes_tensor(module, parts[at], methods, 0)
        case Binding(kind=BindingKind.ASSIGN, path=(_,), value=ast.Call(func=ast.Attribute(attr=attr))):
            return attr in _PAIRS
    return False


def _makes_tensor(module: ModuleIndex, value: ast.expr, methods: frozenset[str], depth: int) -> bool:
    match value:
        case ast.Call(func=ast.Attribute(attr=attr, value=base)):
            if last_name(base) in _NAMES:
                return attr in _FUNCTIONS
            if attr in methods:
                return True
            return attr in _TABLES_TOO and _makes_tensor(module, base, methods, depth)
        case ast.Compare(ops=[ast.Eq() | ast.NotEq() | ast.Gt() | ast.GtE() | ast.Lt() | ast.LtE()]):
            return True
        case ast.BinOp(op=ast.Sub() | ast.Div() | ast.Pow() | ast.MatMult()):
            return True
        case ast.BinOp(left=left, right=right):
            return any(_makes_tensor(module, side, methods, depth) for side in (left, right))
        case ast.Subscript(slice=ast.Tuple(elts=parts)):
            return any(isinstance(part, ast.Slice) for part in parts)
        case ast.Subscript(value=inner, slice=ast.Slice()):
            return _makes_tensor(module, inner, methods, depth)
        case ast.Name() if depth < _DEPTH:
            bound = reaching(module, module.scope(value).lookup(value.id), value)
            plain = all(one.kind is BindingKind.ASSIGN and not one.path and one.value is not None for one in bound)
            return (
                bool(bound)
                and plain
                and all(one.value is not None and _makes_tensor(module, one.value, methods, depth + 1) for one in bound)
            )
    return False
