"""The part of a tensor that inner loops read, where that is its first columns: only these have to be copied."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import FUNCTIONS, Binding, BindingKind, ModuleIndex, last_name

_SORTS = frozenset({"sort", "argsort", "msort"})
"""Methods whose result has all columns, of which metrics read the first few."""


def read_part(module: ModuleIndex, uses: Sequence[ast.Name], at: ast.AST) -> str | None:
    """Return the index of the part of a tensor that all ``uses`` are in, to be taken at a place above them:
    ``[:, :5]``, ``[:, : max(ks)]``. Empty if it is the whole tensor as far as is seen; None if it is a part of a sorted
    tensor of which nothing says how large it is."""
    parts = [part for use in uses if isinstance(part := module.syntax.parents.get(use), ast.Subscript)]
    ends = [_end(part) for part in parts]
    if not uses or len(parts) < len(uses) or not all(ends):
        return ""
    dimensions = {len(part.slice.elts) for part in parts if isinstance(part.slice, ast.Tuple)}
    bounds = {_bound(module, end, at) for end in ends if end is not None}
    if len(dimensions) == 1 and len(bounds) == 1 and (bound := next(iter(bounds))):
        return f"[{':, ' * (dimensions.pop() - 1)}:{bound}]"
    return None if _is_sorted(module, uses[0]) else ""


def _end(part: ast.Subscript) -> ast.Constant | ast.Name | None:
    """``k`` of ``scores[i, :k]``."""
    match part.slice:
        case ast.Tuple(elts=[*others, ast.Slice(lower=None, upper=ast.Constant() | ast.Name() as upper, step=None)]):
            plain = all(isinstance(one, ast.Slice | ast.Name) or _is_index(one) for one in others)
            return upper if others and plain else None
    return None


def _is_index(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def _bound(module: ModuleIndex, end: ast.Constant | ast.Name, at: ast.AST) -> str:
    """Return the largest value of the end of a slice, as code that can stand at a place above; empty if unknown."""
    if isinstance(end, ast.Constant):
        return str(end.value) if _is_index(end) and isinstance(end.value, int) and end.value > 0 else ""
    known = reaching(module, module.scope(end).lookup(end.id), end)
    if len(known) != 1 or known[0].path:
        return ""
    match known[0]:
        case Binding(kind=BindingKind.LOOP, value=ast.Name() as listed) if _is_listed(module, listed, at):
            return f" max({listed.id})"
        case Binding(kind=BindingKind.LOOP, value=ast.expr() as listed):
            return str(most) if (most := _most(listed)) else ""
        case Binding(kind=BindingKind.ASSIGN, value=ast.Constant() as value):
            return _bound(module, value, at)
    return ""


def _is_listed(module: ModuleIndex, name: ast.Name, at: ast.AST) -> bool:
    """Return whether a name stands for the same list of counts at a place above: a literal, or the default of a
    parameter."""
    known = reaching(module, module.scope(name).lookup(name.id), name)
    if len(known) != 1 or known[0].path:
        return False
    home = known[0].scope.node
    if known[0].kind is BindingKind.PARAMETER and isinstance(home, FUNCTIONS) and module.function(at) is home:
        own = home.args
        placed = [*own.posonlyargs, *own.args]
        given = dict(zip([one.arg for one in placed][len(placed) - len(own.defaults) :], own.defaults, strict=True))
        default = given.get(name.id)
        return default is not None and bool(_most(default))
    value, line = known[0].value, getattr(at, "lineno", 0)
    return known[0].kind is BindingKind.ASSIGN and value is not None and value.lineno < line and bool(_most(value))


def _most(listed: ast.expr) -> int:
    """Return the largest of some counts that code lists; 0 if it may list anything else."""
    if not isinstance(listed, ast.List | ast.Tuple):
        return 0
    counts = [one.value for one in listed.elts if isinstance(one, ast.Constant) and type(one.value) is int]
    return max(counts) if counts and len(counts) == len(listed.elts) and min(counts) > 0 else 0


def _is_sorted(module: ModuleIndex, use: ast.Name) -> bool:
    """Return whether a tensor is the result of a sort: ``scores.sort(descending=True)[1]``, ``scores.argsort()``."""
    known = reaching(module, module.scope(use).lookup(use.id), use)
    made = [one.value.value if isinstance(one.value, ast.Subscript) else one.value for one in known]
    return any(isinstance(one, ast.Call) and last_name(one.func) in _SORTS for one in made)
