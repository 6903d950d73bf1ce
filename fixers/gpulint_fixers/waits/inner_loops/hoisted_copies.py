"""Tensors whose parts inner loops copy to the host one by one, each tensor made within the step: it is copied where it
gets its name."""

from __future__ import annotations

import ast
import itertools
from typing import TypeGuard

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.documents.python import walk
from gpulint.fix import Edit, Fix, Safety
from gpulint.placement.sync_points import SyncKind
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import COMPREHENSIONS, LOOPS, BindingKind, ModuleIndex, last_name
from gpulint_fixers.waits.fix_kinds import WholeCopy
from gpulint_fixers.waits.inner_loops.host_copies import SIZES, fits, said_of, tensor_of, used
from gpulint_fixers.waits.inner_loops.sliced_copies import read_part
from gpulint_fixers.waits.single_tensors import is_single_tensor

_KEYS = frozenset({"boxes", "scores", "labels", "masks", "keypoints"})
"""Entries of what detectors return and get, which are tensors."""


def copied_where_made(found: HostWait) -> Fix | None:
    """``boxes = prediction["boxes"].cpu()`` for ``for box in boxes: ... box.cpu()``; None if one of the tensors that
    the statement reads is made or used otherwise."""
    module, edits = found.module, list[Edit]()
    needed = [tensor_of(module, sync.node) for sync in found.syncs if sync.kind is SyncKind.READ]
    copies = [tensor_of(module, call) for call in walk(found.statement) if _is_copy(call)]
    if not needed or None in needed or not _is_part_by_part(found):
        return None
    names = {one.id for one in needed if one is not None}
    for tensor in {one.id: one for one in (*needed, *copies) if one is not None}.values():
        more = _copied(found, module, tensor)
        if more is None and tensor.id in names:
            return None
        edits += more or ()
    return WholeCopy(
        f"{said_of(edits)}; what is computed from each part then runs on the host",
        Safety.UNSAFE,
        (*dict.fromkeys(edits),),
    )


def _is_part_by_part(found: HostWait) -> bool:
    """Return whether the statement reads in rounds of a loop within the step."""
    ancestors = found.module.syntax.ancestors(found.syncs[0].node)
    around = itertools.takewhile(lambda up: up is not found.context.loop.node, ancestors)
    return any(isinstance(up, (*LOOPS, *COMPREHENSIONS)) for up in around)


def _is_copy(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and last_name(node.func) == "cpu" and not node.args


def _copied(found: HostWait, module: ModuleIndex, tensor: ast.Name) -> list[Edit] | None:
    syntax, bindings = module.syntax, module.scope(tensor).lookup(tensor.id)
    known = reaching(module, bindings, tensor)
    if len(known) != 1 or known[0].kind is not BindingKind.ASSIGN or known[0].path or known[0].value is None:
        return None
    value = known[0].value
    if found.context.loop.node not in syntax.ancestors(value) or "\n" in syntax.text(value):
        return None
    if not (_is_entry(value) or (isinstance(value, ast.Call) and is_single_tensor(module, tensor))):
        return None
    edits, uses = list[Edit](), list[ast.Name]()
    sized = False
    for use in module.uses.get(tensor.id, ()):
        if module.function(use) is not module.function(tensor) or known[0] not in reaching(module, bindings, use):
            continue
        if _is_size(module, use):
            sized = True
            continue
        taken = used(module, use)
        if not taken or len(reaching(module, bindings, use)) != 1:
            return None
        edits += taken
        uses.append(use)
    part = read_part(module, uses, value)
    if part is None or (part and sized):
        return None
    end = syntax.offsets(value)[1]
    made = Edit(syntax.path, syntax.span_at(end, end), f"{part}.cpu()")
    return [made, *edits] if fits(module, made, []) else None


def _is_entry(value: ast.expr) -> bool:
    match value:
        case ast.Subscript(value=ast.Name(), slice=ast.Constant(value=key)):
            return key in _KEYS
    return False


def _is_size(module: ModuleIndex, use: ast.Name) -> bool:
    match module.syntax.parents.get(use):
        case ast.Call(func=ast.Name(id="len")):
            return True
        case ast.Attribute(attr=name):
            return name in SIZES
    return False
