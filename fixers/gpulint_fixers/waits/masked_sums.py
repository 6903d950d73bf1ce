"""Sums over what a boolean mask picks (``x[mask].sum()``), which need no wait: zeros elsewhere add up to the same."""

from __future__ import annotations

import ast

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.fix import Edit, Fix, Safety
from gpulint.placement.sync_points import SyncKind
from gpulint.workspace.module_index import BindingKind, ModuleIndex, last_name

_SHAPED = frozenset({"view", "reshape"})
_FLAT = frozenset({"flatten", "ravel"})
_ALIKE = frozenset({"clone", "detach", "float", "double", "half", "abs", "exp", "log", "contiguous"})
"""Methods whose result has the axes of the tensor."""
_ELEMENTWISE = frozenset({"isnan", "isfinite", "isinf", "eq", "ne", "ge", "gt", "le", "lt"})
"""Functions and methods that make a mask of a tensor."""
_DEPTH = 6
"""Most assignments that lead to the shape of a tensor."""


def summed_by_mask(found: HostWait) -> Fix | None:
    """Let a statement whose waits are all sums over picked elements keep the shape; None if it has another wait, or a
    mask that may have fewer axes than what it picks from."""
    edits = tuple(_filled(found.module, sync.node) if sync.kind is SyncKind.SELECT else None for sync in found.syncs)
    known = tuple(edit for edit in edits if edit is not None)
    if not known or len(known) != len(edits):
        return None
    return Fix(
        "add up zeros where the mask does not hold, instead of what it picks; sums may be rounded differently",
        Safety.UNSAFE,
        known,
    )


def _filled(module: ModuleIndex, item: ast.expr) -> Edit | None:
    """``x[mask]`` -> ``x.masked_fill(~mask, 0)``"""
    if not isinstance(item, ast.Subscript) or not _is_summed(module, item):
        return None
    if not _fits(module, item.slice, item.value):
        return None
    syntax, mask = module.syntax, item.slice
    if isinstance(mask, ast.UnaryOp):
        outside = syntax.text(mask.operand)
    elif isinstance(mask, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
        outside = f"~{syntax.text(mask)}"
    else:
        outside = f"~({syntax.text(mask)})"
    start = syntax.source.text.index("[", syntax.offsets(item.value)[1])
    return Edit(syntax.path, syntax.span_at(start, syntax.offsets(item)[1]), f".masked_fill({outside}, 0)")


def _is_summed(module: ModuleIndex, item: ast.Subscript) -> bool:
    """``torch.sum(x[mask])``, ``x[mask].sum()``"""
    parent = module.syntax.parents.get(item)
    match parent:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="sum"), args=[_], keywords=[]):
            return True
        case ast.Attribute(attr="sum"):
            call = module.syntax.parents.get(parent)
            return isinstance(call, ast.Call) and call.func is parent and not call.args and not call.keywords
    return False


def _fits(module: ModuleIndex, mask: ast.expr, value: ast.expr) -> bool:
    """Return whether a mask is boolean, and has as many axes as a tensor: then it has its shape, for it picks from
    it."""
    made = _bound(module, mask)
    if not isinstance(made, ast.Compare | ast.UnaryOp | ast.BinOp | ast.Call) or not _is_boolean(module, made, _DEPTH):
        return False
    axes = _axes(module, value, _DEPTH)
    if axes is not None and axes == _axes(module, made, _DEPTH):
        return True
    return made is mask and _is_of(mask, ast.unparse(value))


def _is_of(mask: ast.expr, value: str) -> bool:
    """``x > 0``, ``~torch.isnan(x)``: a mask of the tensor that it picks from."""
    match mask:
        case ast.UnaryOp(operand=operand):
            return _is_of(operand, value)
        case ast.Compare(left=left, comparators=[ast.Constant()]):
            return ast.unparse(left) == value
        case ast.Call(args=[one], keywords=[]) if last_name(mask.func) in _ELEMENTWISE:
            return ast.unparse(one) == value
    return False


def _is_boolean(module: ModuleIndex, mask: ast.expr, depth: int) -> bool:
    mask = _bound(module, mask)
    match mask:
        case ast.Compare(ops=[ast.Eq() | ast.NotEq() | ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE()]):
            return True
        case ast.UnaryOp(op=ast.Invert(), operand=operand) if depth:
            return _is_boolean(module, operand, depth - 1)
        case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr(), right=right) if depth:
            return _is_boolean(module, left, depth - 1) and _is_boolean(module, right, depth - 1)
        case ast.Call():
            return last_name(mask.func) in _ELEMENTWISE
    return False


def _bound(module: ModuleIndex, node: ast.expr) -> ast.expr:
    """The value of a variable that is assigned once; any other expression as it is."""
    if not isinstance(node, ast.Name):
        return node
    bindings = module.scope(node).lookup(node.id)
    once = bindings[0] if len(bindings) == 1 and bindings[0].kind is BindingKind.ASSIGN else None
    return node if once is None or once.value is None or once.path else once.value


def _axes(module: ModuleIndex, node: ast.expr, depth: int) -> int | None:
    """The number of axes of a tensor, where a ``view`` says it; None if it is unknown."""
    node = _bound(module, node)
    if not depth:
        return None
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr=attr), args=args):
            if attr in _SHAPED:
                return _lengths(args)
            if attr in _FLAT and not args and not node.keywords:
                return 1
            return _axes(module, owner, depth - 1) if attr in _ALIKE and not args else None
        case ast.Subscript(value=value, slice=index) if _is_number(module, index):
            axes = _axes(module, value, depth - 1)
            return axes - 1 if axes else None
        case ast.UnaryOp(operand=operand):
            return _axes(module, operand, depth - 1)
        case ast.Compare(left=left, comparators=[right]) | ast.BinOp(left=left, right=right):
            sides = {_axes(module, side, depth - 1) for side in (left, right) if not isinstance(side, ast.Constant)}
            return sides.pop() if len(sides) == 1 else None
    return None


def _lengths(args: list[ast.expr]) -> int | None:
    """The axes that the arguments of a ``view`` name; None if one of them may be a shape."""
    sizes = args[0].elts if len(args) == 1 and isinstance(args[0], ast.Tuple | ast.List) else args
    if any(isinstance(size, ast.Starred) for size in sizes):
        return None
    alone = sizes is args and len(sizes) == 1 and not isinstance(sizes[0], ast.UnaryOp | ast.Constant)
    return None if alone or not sizes else len(sizes)


def _is_number(module: ModuleIndex, index: ast.expr) -> bool:
    """A number, or the variable of a loop over a range."""
    if isinstance(index, ast.Constant):
        return isinstance(index.value, int)
    bindings = module.scope(index).lookup(index.id) if isinstance(index, ast.Name) else []
    return bool(bindings) and all(
        one.kind is BindingKind.LOOP and isinstance(one.value, ast.Call) and last_name(one.value.func) == "range"
        for one in bindings
    )
