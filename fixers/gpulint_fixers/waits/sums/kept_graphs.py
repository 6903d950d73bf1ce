"""Tensors with their graphs that a table adds up beside numbers that are read: ``float()`` of one warns."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from gpulint.documents.python import walk
from gpulint.fix import Edit
from gpulint.placement.synchronization import SyncPoints
from gpulint.placement.tensor_location import TensorLocations
from gpulint.project import Project
from gpulint.training.guards import Guards
from gpulint.workspace.module_index import ModuleIndex
from gpulint_fixers.waits.device_reads import device_read, is_detached, is_plain_number, is_torch_tensor

_PLAIN = (ast.Name, ast.Attribute, ast.Subscript, ast.Call)


def graphs_beside(project: Project, module: ModuleIndex, values: Iterable[ast.expr]) -> tuple[tuple[Edit, ...], bool]:
    """Return the edits that detach what is certainly a tensor among the values that are added, and whether others may
    have a graph as well: these are no numbers as far as anything tells, and need not be tensors."""
    edits, unproved = list[Edit](), False
    for value in sorted(values, key=lambda one: (one.lineno, one.col_offset)):
        if not _may_have_graph(project, module, value):
            continue
        if isinstance(value, _PLAIN) and is_torch_tensor(project, module, value):
            end = module.syntax.offsets(value)[1]
            edits.append(Edit(module.path, module.syntax.span_at(end, end), ".detach()"))
        else:
            unproved = True
    return tuple(edits), unproved


def _may_have_graph(project: Project, module: ModuleIndex, value: ast.expr) -> bool:
    """Return whether a value may be a tensor that was computed with gradients: nothing in it is read from the GPU."""
    if not isinstance(value, (*_PLAIN, ast.BinOp)) or is_plain_number(module, value) or is_detached(value):
        return False
    known = {sync.node for sync in project.fact(SyncPoints).in_module(module)}
    for part in walk(value):
        if part in known or (isinstance(part, ast.Call) and device_read(module, part) is not None):
            return False
    if project.fact(TensorLocations).is_host(module, value):
        return False
    return not project.fact(Guards).is_without_gradients(module, value)
