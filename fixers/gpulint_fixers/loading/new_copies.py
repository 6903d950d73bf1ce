"""Copies of what each step computes of a batch on the host, for which the step waits."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.placement.batch_flow import BatchFlow
from gpulint.placement.device_transfers import Transfer
from gpulint.placement.host_copies import is_new
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import LOOPS, ModuleIndex, last_name
from gpulint_fixers.loading.moved_copies import bound_value

_STEPS = 5
"""Assignments back from what is moved, over which it may be made of an array."""
_ARRAYS = frozenset({"numpy", "from_numpy"})
_COMPUTED = ast.BinOp | ast.Compare | ast.UnaryOp
_LIBRARIES = frozenset({"torch", "np", "numpy"})


def copies_new(project: Project, transfer: Transfer) -> bool:
    """Return whether the block of a copy also moves what was computed from a batch, for which the host waits:
    ``images = 2 * images - 1`` and then ``images.to(device)``."""
    module, syntax = transfer.call.module, transfer.call.module.syntax
    statement = next((up for up in syntax.ancestors(transfer.node) if isinstance(up, ast.stmt)), None)
    block = syntax.parents.get(statement) if statement is not None else None
    return block is not None and any(_is_computed(project, module, moved) for moved in _moved(module).get(block, ()))


@query
def _moved(module: ModuleIndex) -> dict[ast.AST, list[ast.expr]]:
    """The variables that are moved, and what is computed where it is moved (``(mask < 0.5).to(device)``), by the block
    whose statement does that."""
    found, syntax = dict[ast.AST, list[ast.expr]](), module.syntax
    for call in (*module.calls_by_name.get("to", []), *module.calls_by_name.get("cuda", [])):
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name | _COMPUTED):
            statement = next((up for up in syntax.ancestors(call) if isinstance(up, ast.stmt)), None)
            if statement is not None and (block := syntax.parents.get(statement)) is not None:
                found.setdefault(block, []).append(call.func.value)
    return found


def _is_computed(project: Project, module: ModuleIndex, moved: ast.expr) -> bool:
    """Return whether what is moved was computed from a batch that is on the host."""
    if not isinstance(moved, ast.Name):
        return _has_batch(project, module, moved)
    bound = reaching(module, module.scope(moved).lookup(moved.id), moved)
    computed = (one.value for one in bound if isinstance(one.value, ast.BinOp))
    return any(_has_batch(project, module, value) for value in computed) or _is_of_arrays(module, moved)


def _has_batch(project: Project, module: ModuleIndex, value: ast.expr) -> bool:
    flow = project.fact(BatchFlow)
    return any(isinstance(part, ast.Name) and flow.batch_of(module, part) is not None for part in walk(value))


def _is_of_arrays(module: ModuleIndex, name: ast.Name) -> bool:
    """Return whether each round of a loop makes a tensor anew of arrays: ``x = x.numpy()``, ``x = torch.Tensor(x)``."""
    loop = next((up for up in module.syntax.ancestors(name) if isinstance(up, LOOPS)), None)
    if loop is None:
        return False
    made = False
    for _ in range(_STEPS):
        bound = reaching(module, module.scope(name).lookup(name.id), name)
        value = bound_value(bound[0]) if len(bound) == 1 else None
        if value is None or loop not in module.syntax.ancestors(bound[0].node):
            return False
        made = made or is_new(module, value)
        calls = {last_name(part.func) for part in walk(value) if isinstance(part, ast.Call)}
        if calls & {"to", "cuda"}:
            return False
        if made and calls & _ARRAYS:
            return True
        names = (part for part in walk(value) if isinstance(part, ast.Name) and part.id not in _LIBRARIES)
        if (inner := next(names, None)) is None:
            return False
        name = inner
    return False
