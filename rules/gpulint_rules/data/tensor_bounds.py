"""Tensors on the GPU that say where a slice or a range ends, or how large a new tensor is: the host reads each."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpulint.placement.device_transfers import DeviceTransfers
from gpulint.placement.expressions import element, looped_over
from gpulint.placement.subscript_indices import loops_around
from gpulint.placement.table_entries import TableEntries
from gpulint.placement.tensor_location import TensorLocations
from gpulint.placement.tested_tensors import is_computed_on_gpu
from gpulint.project import Project
from gpulint.query import cyclic, query
from gpulint.semantic.argument_binding import argument_of
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.training.guards import Guards
from gpulint.workspace.module_index import FUNCTIONS, Binding, BindingKind, ModuleIndex

_SIZED = frozenset({"zeros", "ones", "empty", "rand", "randn", "arange", "randperm"})
"""Functions of PyTorch whose arguments are sizes."""


def ends(project: Project, module: ModuleIndex, block: ast.AST) -> Iterator[ast.expr]:
    """Yield the values on the GPU that a slice or a range of a block ends at, or that are the size of a tensor:
    ``tokens[:, : lengths.max()]``, ``range(counts.max())``, ``row[:length]`` of ``for row, length in zip(rows,
    lengths)``."""
    guards = project.fact(Guards)
    for end in _ends(project, module):
        if block in module.syntax.ancestors(end) and not guards.is_periodic(module, end):
            yield end


@query
def _ends(project: Project, module: ModuleIndex) -> tuple[ast.expr, ...]:
    tensors = project.fact(TensorLocations)
    found = list[ast.expr]()
    for end in _bounds(project, module):
        match _set_to(module, end) if isinstance(end, ast.Name) else end:
            case ast.Call(func=ast.Attribute(value=owner, attr="max" | "min"), args=[]) if tensors.is_tensor(
                module, owner
            ) and not tensors.is_host(module, owner):
                found.append(end)
            case _ if _is_on_gpu(project, module, end):
                found.append(_whole(module, end))
    return tuple(dict.fromkeys(found))


def _whole(module: ModuleIndex, end: ast.expr) -> ast.expr:
    """Return the expression that a bound belongs to, for who reads of it: ``row[:length]``."""
    ups = module.syntax.ancestors(end)
    return next((up for up in ups if isinstance(up, ast.Subscript | ast.Call)), end)


def _bounds(project: Project, module: ModuleIndex) -> Iterator[ast.expr]:
    """Yield the bounds of slices, the arguments of ``range``, and the sizes of new tensors, without plain numbers."""
    slices: Iterator[ast.Slice] = module.syntax.of(ast.Slice)
    values = [bound for part in slices for bound in (part.lower, part.upper)]
    values += (argument for call in module.calls_by_name.get("range", ()) for argument in call.args)
    for name in _SIZED:
        for call in module.calls_by_name.get(name, ()):
            if f"torch.{name}" in project.fact(Resolver).call_names(module, call):
                values += call.args
    for value in values:
        if isinstance(value, ast.Name | ast.Call | ast.BinOp | ast.Subscript):
            yield value


@cyclic(False)
def _is_on_gpu(project: Project, module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a value is surely a tensor on the GPU, by what moved it there or computed it of what was."""
    match node:
        case ast.Name(id=name):
            known = module.scope(node).lookup(name)
            again = [one for one in known if _is_of_round_before(module, node, one)]
            bound = dict.fromkeys([*reaching(module, known, node), *again])
            made = [one for one in bound if one.kind is not BindingKind.ASSIGN or not _is_constant(one)]
            return bool(made) and all(_is_bound(project, module, node, one) for one in made)
        case ast.BinOp(left=left, right=right):
            return any(_is_on_gpu(project, module, side) for side in (left, right))
        case ast.Subscript(slice=ast.Constant(value=str())):
            held = project.fact(TableEntries).under(module, node)
            return bool(held) and all(
                isinstance(one.node, ast.expr) and not one.path and _is_on_gpu(project, one.module, one.node)
                for one in held
            )
        case ast.Subscript(value=base):
            return _is_on_gpu(project, module, base)
        case ast.Call():
            move = project.fact(DeviceTransfers).transfer_at(module, node)
            return move.to_gpu if move is not None else is_computed_on_gpu(project, module, node)
    return False


def _is_of_round_before(module: ModuleIndex, use: ast.expr, one: Binding) -> bool:
    """Return whether a name is bound in the innermost loop around a use of it: ``start += length``."""
    around = loops_around(module, use)
    return bool(around) and around[0] in module.syntax.ancestors(one.node)


def _is_constant(one: Binding) -> bool:
    return one.value is not None and isinstance(element(one.value, one.path)[0], ast.Constant)


def _is_bound(project: Project, module: ModuleIndex, node: ast.Name, one: Binding) -> bool:
    """Return whether what a name is bound to is on the GPU: a row of a tensor, what all callers hand in."""
    if one.kind is BindingKind.AUGMENT and isinstance(one.node, ast.AugAssign):
        return one.node.target is not node and _is_on_gpu(project, module, one.node.value)
    if one.kind is BindingKind.LOOP and one.value is not None:
        rows = looped_over(one.value, one.path)
        return rows is not None and _is_on_gpu(project, module, rows)
    if one.kind is BindingKind.ASSIGN and one.value is not None:
        value, path = element(one.value, one.path)
        return not path and _is_on_gpu(project, module, value)
    function = one.scope.node
    if one.kind is not BindingKind.PARAMETER or not isinstance(function, FUNCTIONS):
        return False
    sites = project.fact(Resolver).call_sites(module, function)
    handed = [
        (site.module, argument_of(function, site.node, node.id)) for site in sites if isinstance(site.node, ast.Call)
    ]
    return bool(handed) and all(value is not None and _is_on_gpu(project, where, value) for where, value in handed)


def _set_to(module: ModuleIndex, name: ast.Name) -> ast.expr | None:
    """The one expression that a variable is set to."""
    bound = reaching(module, module.scope(name).lookup(name.id), name)
    return bound[0].value if len(bound) == 1 and not bound[0].path else None
