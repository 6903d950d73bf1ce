"""Values that Lightning logs of the result of a step: it reads the tensors when it writes its log."""

from __future__ import annotations

import ast

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait
from gpulint_rules.data.lightning_logs import is_in_result

from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.workspace.module_index import ModuleIndex
from gpulint_fixers.waits.device_reads import device_read

HANDS_OVER = "hand Lightning the tensor, which it reads when it writes its log"
"""What such a fix does."""


def returned_to_lightning(found: HostWait) -> Fix | Declined | None:
    """``return {"loss": loss, "log": {"loss": loss.item()}}``; None for other statements."""
    if not found.syncs or not all(is_in_result(found.module, sync.node) for sync in found.syncs):
        return None
    edits = [_tensor(found.module, sync.node) for sync in found.syncs]
    if None in edits:
        return Declined("more is done with the value than reading it")
    return Fix(HANDS_OVER, Safety.UNSAFE, tuple(dict.fromkeys(edit for edit in edits if edit is not None)))


def _tensor(module: ModuleIndex, node: ast.expr) -> Edit | None:
    """The edit that leaves the tensor without the copy or the read."""
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr="cpu"), args=[], keywords=[]):
            start, end = module.syntax.offsets(inner)[1], module.syntax.offsets(node)[1]
            detached = "" if _is_detached(inner) else ".detach()"
            return (
                Edit(module.path, module.syntax.span_at(start, end), detached) if _is_of_tensor(module, node) else None
            )
    read = device_read(module, node)
    return None if read is None else read.replaced(module, ".detach()")


def _is_detached(tensor: ast.expr) -> bool:
    return isinstance(tensor, ast.Call) and isinstance(tensor.func, ast.Attribute) and tensor.func.attr == "detach"


def _is_of_tensor(module: ModuleIndex, copy: ast.Call) -> bool:
    """Return whether what is made of a copy is a tensor as well, and not a number or an array."""
    top: ast.AST = copy
    while isinstance(up := module.syntax.parents.get(top), ast.Attribute):
        if up.attr not in ("float", "double", "half", "detach", "mean", "sum", "clone"):
            return False
        call = module.syntax.parents.get(up)
        if not isinstance(call, ast.Call) or call.args or call.keywords:
            return False
        top = call
    return isinstance(up, ast.Dict)
