"""Sums of which it makes no difference whether they are integers or floats."""

from __future__ import annotations

import ast

from gpulint import regex
from gpulint.workspace.module_index import last_name
from gpulint_fixers.waits.deferred_reads import Variable

_OF_FLOATS = regex.compile(r"[\w ,.<>=^+-]{0,20}[eEfFgG%]")
"""Formats that write integers and floats alike."""
_CONVERTS = frozenset({"float", "isclose", "isnan", "isfinite"})


def is_used_as_float(variable: Variable) -> bool:
    """Return whether all that is done with a sum gives the same for an integer as for the float of its size:
    ``total / len(loader)``, ``f"{total:.2f}"``, ``total > 3``."""
    uses = variable.occurrences()
    return uses is not None and all(_is_alike(variable, use) for use in uses)


def _is_alike(variable: Variable, use: ast.Name) -> bool:
    parent = variable.module.syntax.parents.get(use)
    match parent:
        case ast.AugAssign(target=target) if target is use:
            return isinstance(parent.op, ast.Add | ast.Div)
        case _ if not isinstance(use.ctx, ast.Load):
            return True
        case ast.BinOp(op=ast.Div()) | ast.Compare():
            return True
        case ast.BinOp(op=ast.Add(), left=left) if left is use:  # ``total = total + loss.item()``
            around = variable.module.syntax.parents.get(parent)
            return isinstance(around, ast.Assign) and [ast.unparse(one) for one in around.targets] == [use.id]
        case ast.FormattedValue(format_spec=ast.JoinedStr(values=[ast.Constant(value=str(text))])):
            return _OF_FLOATS.fullmatch(text) is not None
        case ast.Call(func=func):
            return last_name(func) in _CONVERTS
    return False
