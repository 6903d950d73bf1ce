"""Uses of numbers that take integers alone."""

from __future__ import annotations

import ast

from gpulint.workspace.module_index import ModuleIndex, last_name

_WHOLE = frozenset({"range", "bincount", "islice", "hex", "bin", "chr", "one_hot", "trange"})
"""Functions that take an integer, or an array of them."""


def takes_integers(module: ModuleIndex, node: ast.Name) -> bool:
    """``names[label]``, ``np.eye(5)[labels]``, ``range(count)``, ``f"{count:d}"``"""
    match up := module.syntax.parents.get(node):
        case ast.Subscript(slice=index):
            return index is node
        case ast.Slice():
            return True
        case ast.Call(func=func, args=[first, *_]) if first is node:
            return last_name(func) in _WHOLE
        case ast.FormattedValue(format_spec=ast.JoinedStr(values=[ast.Constant(value=str(text))])):
            return text.endswith(("d", "x", "b"))
        case ast.BinOp(op=ast.LShift() | ast.RShift() | ast.BitAnd() | ast.BitOr()):
            return True
        case ast.Dict(keys=keys):
            return node in keys
        case ast.Tuple():
            outer = module.syntax.parents.get(up)
            return isinstance(outer, ast.Subscript) and outer.slice is up
    return False
