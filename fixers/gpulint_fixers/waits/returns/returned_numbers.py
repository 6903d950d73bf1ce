"""Numbers that a function computes on the host of copies, and reads where it returns them, beside others that it reads
there."""

from __future__ import annotations

import ast
from dataclasses import replace

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.documents.python import walk
from gpulint.fix import Edit, Fix
from gpulint.placement.synchronization import SyncPoints
from gpulint.project import Project
from gpulint.workspace.module_index import ModuleIndex
from gpulint_fixers.waits.device_reads import read_around
from gpulint_fixers.waits.host_casts import computed_on_gpu, uses_of
from gpulint_fixers.waits.returns.returned_reads import returned


def returned_numbers(project: Project, found: HostWait, statement: ast.stmt) -> Fix | None:
    """``return loss.item(), right.item()`` below ``right = (best.cpu() == labels.cpu()).sum()``: compute on the GPU,
    and return both tensors; None for others."""
    module, end = found.module, _return_of(found.module, statement)
    if end is None:
        return None
    syncs = {sync.node: sync for sync in project.fact(SyncPoints).in_module(module)}
    own = {node: sync for node, sync in syncs.items() if node in {*walk(end)}}
    edits = list[Edit]()
    for copying in _computed_above(module, end):
        inside = tuple(sync for node, sync in syncs.items() if node in {*walk(copying)})
        made = computed_on_gpu(project, replace(found, statement=copying, syncs=inside)) if inside else None
        reads = [read_around(module, use) for use in uses_of(module, copying)]
        if made is None or any(read is None or read.whole not in {*walk(end)} for read in reads):
            return None
        edits += made.edits
        own |= {
            read.whole: replace(inside[0], node=read.whole, value=read.tensor) for read in reads if read is not None
        }
    if not edits:
        return None
    whole = returned(project, replace(found, statement=end, syncs=tuple(own.values())), end)
    return replace(whole, edits=(*edits, *whole.edits)) if isinstance(whole, Fix) else None


def _return_of(module: ModuleIndex, statement: ast.stmt) -> ast.Return | None:
    """The only ``return`` of the function around a statement."""
    function = module.function(statement)
    if function is None or isinstance(function, ast.Lambda):
        return None
    found = [part for part in walk(function) if isinstance(part, ast.Return) and module.function(part) is function]
    return found[0] if len(found) == 1 else None


def _computed_above(module: ModuleIndex, end: ast.Return) -> list[ast.Assign]:
    """The assignments of copies of whose variables a ``return`` reads numbers."""
    names = {
        part.value.id for part in walk(end) if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name)
    }
    function, found = module.function(end), list[ast.Assign]()
    for name in sorted(names):
        for binding in module.scope(end).bindings.get(name, []):
            node = module.syntax.parents.get(binding.node) if isinstance(binding.node, ast.Name) else binding.node
            if isinstance(node, ast.Assign) and module.function(node) is function and _has_copy(node):
                found.append(node)
    return found


def _has_copy(statement: ast.Assign) -> bool:
    return any(isinstance(part, ast.Attribute) and part.attr in ("cpu", "to") for part in walk(statement.value))
