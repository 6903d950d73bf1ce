"""Copies of tensors of one number that an inner loop of a step lists: ``norms.append(p.grad.norm().cpu().numpy())``."""

from __future__ import annotations

import ast

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.workspace.module_index import ModuleIndex, dotted
from gpulint_fixers.waits.device_reads import DeviceRead
from gpulint_fixers.waits.inner_loops.inner_lists import is_number
from gpulint_fixers.waits.lists.whole_reads import whole_read

_COMPUTES = frozenset({"min", "max", "sum", "len", "sorted"})
_ARRAYS = ("np.", "numpy.", "statistics.", "math.")
"""Modules whose functions compute the same of numbers as of arrays of one number."""


def listed_number(found: HostWait) -> DeviceRead | None:
    """Return the copy that a statement adds to a list, if it is of one number, and the function only computes numbers
    of the list."""
    match found.statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append", value=ast.Name() as name), args=[value])):
            read = whole_read(value)
            if read is None or not isinstance(read.tensor, ast.Call) or not is_number(read.tensor):
                return None
            text = found.module.syntax.text(value)
            if "#" in text or "\n" in text or not _is_computed_with(found.module, name):
                return None
            return DeviceRead(value, read.tensor, found.module.syntax.offsets(read.tensor)[1])
    return None


def _is_computed_with(module: ModuleIndex, listed: ast.Name) -> bool:
    function = module.function(listed)
    uses = [use for use in module.uses.get(listed.id, ()) if use is not listed and module.function(use) is function]
    return bool(uses) and all(_computes(module.syntax.parents.get(use), use) for use in uses)


def _computes(call: ast.AST | None, use: ast.Name) -> bool:
    """``min(norms)``, ``np.mean(norms)``"""
    if not isinstance(call, ast.Call) or call.args != [use]:
        return False
    return (isinstance(call.func, ast.Name) and call.func.id in _COMPUTES) or dotted(call.func).startswith(_ARRAYS)
