"""Tensors that a step copies to the GPU only to read their values on the host."""

from __future__ import annotations

import ast

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint import regex
from gpulint.fix import Edit, Safety
from gpulint.placement.sync_points import SyncKind
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import BindingKind, ModuleIndex
from gpulint_fixers.edits.statements import remove_statement, without_gaps
from gpulint_fixers.waits.fix_kinds import Removal

_DEVICE = regex.compile(
    r"\.cuda\((?:[\w.]+)?(?:,\s*)?(?:non_blocking\s*=\s*True)?\)$|\.to\([^()]*\bdev(?:ice)?\b[^()]*\)$"
)
_TYPE = regex.compile(r"dtype|float|half|long|int\d|bool")
_READS = frozenset({"tolist", "cpu", "item"})


def without_upload(found: HostWait) -> Removal | None:
    """Remove ``ids = ids.to(device)`` where all that follows is ``ids.tolist()``."""
    module, edits, names = found.module, list[Edit](), list[str]()
    if any(sync.kind is not SyncKind.READ for sync in found.syncs):
        return None
    for sync in found.syncs:
        upload = _upload(module, sync.value) if isinstance(sync.value, ast.Name) else None
        if upload is None or found.context.loop.node not in module.syntax.ancestors(upload):
            return None
        edit = remove_statement(module.syntax, upload)
        if edit is None or edit.text:
            return None
        edits += [edit] if edit.span.cell is not None else without_gaps(module.syntax.source, [edit])
        names.append(ast.unparse(upload.targets[0]))
    text = " and ".join(f"`{name}`" for name in dict.fromkeys(names))
    return Removal(f"leave {text} on the host, where alone it is read", Safety.SAFE, tuple(dict.fromkeys(edits)))


def _upload(module: ModuleIndex, read: ast.Name) -> ast.Assign | None:
    """The statement that copies a variable to the GPU, if nothing but reads of its values follows."""
    bindings = module.scope(read).lookup(read.id)
    known = reaching(module, bindings, read)
    if len(known) != 1 or known[0].kind is not BindingKind.ASSIGN or known[0].path or known[0].value is None:
        return None
    value, statement = known[0].value, module.syntax.parents.get(known[0].value)
    match statement, value:
        case ast.Assign(targets=[ast.Name(id=name)]), ast.Call(func=ast.Attribute(value=ast.Name(id=source))):
            text = module.syntax.text(value)
            if name != source or not _DEVICE.search(text) or _TYPE.search(text):
                return None
        case _:
            return None
    own = [use for use in module.uses.get(read.id, ()) if module.scope(use).lookup(use.id) is bindings]
    if any(module.function(use) is not module.function(read) for use in own):
        return None
    uses = [use for use in own if known[0] in reaching(module, bindings, use)]
    return statement if all(_is_read(module, use) for use in uses) else None


def _is_read(module: ModuleIndex, use: ast.Name) -> bool:
    """``ids.tolist()``, ``ids.cpu()``, ``len(ids)``"""
    match up := module.syntax.parents.get(use):
        case ast.Attribute(attr=attr) if attr in _READS:
            call = module.syntax.parents.get(up)
            return isinstance(call, ast.Call) and call.func is up and not call.args and not call.keywords
        case ast.Call(func=ast.Name(id="len")):
            return True
    return False
