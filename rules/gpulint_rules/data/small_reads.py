"""Whether waits are for single numbers, and no copies of whole tensors."""

from __future__ import annotations

import ast
import re

from gpulint import regex
from gpulint.placement.sync_points import SyncKind, SyncPoint
from gpulint.workspace.module_index import ModuleIndex, last_name

_COPIES = frozenset({"cpu", "numpy", "tolist", "to", "device_get", "type"})
"""Methods that may copy a whole tensor."""
_SAME = frozenset({"detach", "clone", "cpu", "data", "float", "double"})
_REDUCES = frozenset({"mean", "sum", "max", "min", "norm", "any", "all"})
_LOSS = regex.compile(r"(^|_|\b)loss(es)?(_|\d|\b)", re.IGNORECASE)


def is_of_number(module: ModuleIndex, sync: SyncPoint) -> bool:
    """Return whether a wait is for one number, or for what a mask picks, and not for a copy of a whole tensor."""
    if sync.kind is not SyncKind.READ or not isinstance(sync.node, ast.Call) or sync.value is None:
        return sync.kind is not SyncKind.BARRIER
    if last_name(sync.node.func) not in _COPIES or _is_reduced(module, sync.node):
        return True
    value = sync.value
    while isinstance(value, ast.Call) and last_name(value.func) in _SAME and isinstance(value.func, ast.Attribute):
        value = value.func.value
    if isinstance(value, ast.Attribute) and value.attr == "data":
        value = value.value
    if isinstance(value, ast.Call):
        return last_name(value.func) in _REDUCES and not value.keywords and len(value.args) < 2
    return isinstance(value, ast.Name | ast.Attribute | ast.Subscript) and _LOSS.search(ast.unparse(value)) is not None


def _is_reduced(module: ModuleIndex, copy: ast.Call) -> bool:
    """Return whether a number is made of a copy at once: ``output.eq(labels).cpu().sum()``."""
    name = module.syntax.parents.get(copy)
    call = module.syntax.parents.get(name) if isinstance(name, ast.Attribute) and name.attr in _REDUCES else None
    return isinstance(call, ast.Call) and call.func is name and not call.args and not call.keywords
