"""Values in the inner loops of a step that are certainly on the GPU, so that a branch on them waits."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.placement.computed_values import ComputedValues
from gpulint.placement.device_transfers import DeviceTransfers
from gpulint.placement.expressions import looped_over
from gpulint.placement.subscript_indices import loops_around, targets
from gpulint.placement.sync_points import SyncKind, SyncPoint
from gpulint.placement.tensor_location import TensorLocations
from gpulint.placement.tensor_results import gives_no_tensor
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import Binding, BindingKind, ModuleIndex, last_name

if TYPE_CHECKING:
    from gpulint.project import Project

ORDERS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
"""Comparisons whose results are tensors."""
MAX_STEPS = 6
"""How many names and operations away from a test the move or the function of PyTorch is looked for."""
_FUNCTIONS = ("torch.", "torch.nn.functional.", "torch.linalg.", "torch.special.")
"""Modules whose functions compute a tensor of tensors, without what is below other modules of PyTorch."""


def asks_for_text(test: ast.Compare) -> bool:
    """Return whether a value is compared with a text or ``None``."""
    return any(isinstance(side, ast.Constant) and isinstance(side.value, str | None) for side in test.comparators)


def is_tested_on_gpu(project: Project, module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a value that an inner loop tests was moved to the GPU (``zero = torch.zeros(2).cuda()``), or a
    function of PyTorch computed it of such values (``phi = F.grid_sample(volume, points).sum() * 1000``)."""
    return bool(loops_around(module, node)) and _is_on_gpu(project, module, node, MAX_STEPS)


def filters_on_gpu(project: Project, module: ModuleIndex) -> Iterator[SyncPoint]:
    """Yield the conditions of comprehensions that compare elements of a tensor on the GPU one by one: ``[i for i in
    range(len(kinds)) if kinds[i] == 0]``."""
    parts: Iterator[ast.comprehension] = module.syntax.of(ast.comprehension)
    for test in (test for part in parts for test in part.ifs):
        if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ORDERS) or asks_for_text(test):
            continue
        for side in (test.left, test.comparators[0]):
            if isinstance(side, ast.Subscript | ast.Name) and is_tested_on_gpu(project, module, side):
                yield SyncPoint(test, SyncKind.TEST, side)
                break


def is_computed_on_gpu(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call gives a tensor that was moved to the GPU, or that is computed of such tensors."""
    return _gives_one(project, module, call, MAX_STEPS)


def is_read_too(module: ModuleIndex, side: ast.expr | None) -> bool:
    """Return whether an inner loop that compares an element of a tensor also reads it: ``labels[i, j].item()``."""
    if not isinstance(side, ast.Subscript) or not isinstance(side.value, ast.Name):
        return False
    around, text = loops_around(module, side), ast.unparse(side)
    indices = side.slice.elts if isinstance(side.slice, ast.Tuple) else [side.slice]
    names = {one.id for one in indices if isinstance(one, ast.Name)}
    if not around or len(names) < len(indices) or names.isdisjoint(targets(around[0])):
        return False
    return any(
        isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Subscript)
        and ast.unparse(call.func.value) == text
        and around[0] in loops_around(module, call)
        for call in module.calls_by_name.get("item", ())
    )


def _is_on_gpu(project: Project, module: ModuleIndex, node: ast.expr, steps: int) -> bool:
    if not steps:
        return False
    match node:
        case ast.Name(id=name):
            bindings = reaching(module, module.scope(node).lookup(name), node)
            values = [_value_of(one) for one in bindings]
            return 0 < len(values) == len(bindings) and all(
                value is not None and _is_on_gpu(project, module, value, steps - 1) for value in values
            )
        case ast.BinOp(left=left, right=right):
            return any(_is_on_gpu(project, module, side, steps - 1) for side in (left, right))
        case ast.UnaryOp(op=ast.USub(), operand=inner) | ast.Subscript(value=inner):
            return _is_on_gpu(project, module, inner, steps - 1)
        case ast.Call():
            return _gives_one(project, module, node, steps)
    return False


def _value_of(one: Binding) -> ast.expr | None:
    """Return what a name is set to, or the tensor of whose rows it is one; None if that is unknown."""
    if one.kind is BindingKind.LOOP and one.value is not None:
        return looped_over(one.value, one.path)
    return one.value if one.kind is BindingKind.ASSIGN and not one.path else None


def _gives_one(project: Project, module: ModuleIndex, call: ast.Call, steps: int) -> bool:
    is_host = project.fact(TensorLocations).is_host
    if gives_no_tensor(project, module, call, last_name(call.func), is_host):
        return False
    if (move := project.fact(DeviceTransfers).transfer_at(module, call)) is not None:
        return move.to_gpu
    if isinstance(call.func, ast.Attribute) and _is_on_gpu(project, module, call.func.value, steps - 1):
        return True
    names = project.fact(Resolver).call_names(module, call)
    if not any(name.rpartition(".")[0] + "." in _FUNCTIONS for name in names):
        return False
    given = [argument for argument in call.args if not isinstance(argument, ast.Constant)]
    return any(project.fact(ComputedValues).holds(module, argument) for argument in given) and not any(
        is_host(module, argument) for argument in given
    )
