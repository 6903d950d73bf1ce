"""Variables of what is unpacked or added to them: whether that is in host memory."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.values.bound_parts import bound_part
from gpulint.workspace.module_index import Binding, BindingKind, ModuleIndex

if TYPE_CHECKING:
    from gpulint.project import Project

_SIZES = frozenset({"size", "dim", "numel", "nelement"})
"""Methods of tensors that give numbers, wherever the tensor is."""
_DEEPEST = 4
_MOST_VALUES = 8
"""Most values of a count that are looked at."""


def unpacks_host(
    project: Project, module: ModuleIndex, binding: Binding, is_host: Callable[[ModuleIndex, ast.expr], bool]
) -> bool:
    """Return whether functions of the tree return tuples whose element for a name is in host memory (``low, high =
    limits(0.1)``). A tuple of another length is not what is unpacked."""
    call, path = binding.value, binding.path
    if not isinstance(call, ast.Call) or len(path) != 1:
        return False
    resolver = project.fact(Resolver)
    callees = resolver.callees(module, call)
    returned = [
        (one.module, value)
        for one in callees
        if isinstance(one.node, ast.FunctionDef)
        for value in resolver.returns(one.node)
    ]
    return (
        bool(returned)
        and all(isinstance(one.node, ast.FunctionDef) for one in callees)
        and all(
            isinstance(value, ast.Tuple)
            and 0 <= path[0] < len(value.elts)
            and not any(isinstance(part, ast.Starred) for part in value.elts)
            and _fits(binding.node, len(value.elts))
            and is_host(where, value.elts[path[0]])
            for where, value in returned
        )
    )


def _fits(statement: ast.AST, length: int) -> bool:
    """Return whether an assignment may unpack a tuple of so many elements."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return all(
        len(target.elts) == length or any(isinstance(part, ast.Starred) for part in target.elts)
        for target in targets
        if isinstance(target, ast.Tuple | ast.List)
    )


def others(value: ast.expr, name: str) -> list[ast.expr]:
    """Return what a variable is computed of besides itself: ``x`` of ``mean = 0.9 * mean + 0.1 * x``. It is the value
    itself if operators do not compute it of the variable."""
    leaves, pending = list[ast.expr](), [value]
    while pending:
        match one := pending.pop():
            case ast.BinOp(left=left, right=right):
                pending += [left, right]
            case ast.UnaryOp(operand=operand):
                pending.append(operand)
            case _:
                leaves.append(one)
    rest = [one for one in leaves if not (isinstance(one, ast.Name) and one.id == name)]
    if isinstance(value, ast.Name) or len(rest) == len(leaves):
        return [value]
    return [one for one in rest if not isinstance(one, ast.Constant)]


def adds_tensors(
    project: Project, module: ModuleIndex, node: ast.expr, is_tensor: Callable[[ModuleIndex, ast.expr], bool]
) -> bool:
    """Return whether functions of PyTorch make what is added to a variable (``loss = 0.0``, ``loss += torch.mean(x)``),
    or one of the sums that it is set to has a tensor (``loss = loss + criterion(x, y)``), so that it may be a
    tensor."""
    bindings = reaching(module, module.scope(node).lookup(node.id), node) if isinstance(node, ast.Name) else ()
    added = [one.node.value for one in bindings if isinstance(one.node, ast.AugAssign)]
    sums = [one.value for one in bindings if one.kind is BindingKind.ASSIGN and isinstance(one.value, ast.BinOp)]
    if any(is_tensor(module, value) for value in (*sums, *added)):
        return True
    return any(
        name.startswith("torch.")
        for value in added
        for part in ([value.left, value.right] if isinstance(value, ast.BinOp) else [value])
        if isinstance(part, ast.Call)
        for name in project.fact(Resolver).call_names(module, part)
    )


def with_sums(
    module: ModuleIndex, name: ast.Name, bindings: Sequence[Binding]
) -> tuple[Sequence[Binding], list[ast.expr]]:
    """Return what a variable starts as, and what statements add to it in place (``correct += hits.item()``). A
    parameter may be anything, so that what is added to one says nothing: both are then as they were."""
    found: dict[ast.AST, Binding] = {}
    pending, added = list(bindings), list[ast.expr]()
    while pending:
        one = pending.pop()
        if one.node in found:
            continue
        found[one.node] = one
        match one:
            case Binding(kind=BindingKind.AUGMENT, node=ast.AugAssign(target=ast.Name() as target, value=value)):
                added.append(value)
                pending += reaching(module, one.scope.lookup(name.id), target)
            case Binding(kind=BindingKind.PARAMETER):
                return bindings, []
    return [one for one in found.values() if one.kind is not BindingKind.AUGMENT], added


def computes_on_host(
    module: ModuleIndex, parts: tuple[ast.expr, ast.expr], is_host: Callable[[ModuleIndex, ast.expr], bool]
) -> bool:
    """Return whether an operator computes with what is in host memory, alone or with a count: ``correct / total``."""
    held = [is_host(module, part) for part in parts]
    if not any(ok and not isinstance(part, ast.Constant) for ok, part in zip(held, parts, strict=True)):
        return all(held)
    return all(ok or is_count(module, part) for ok, part in zip(held, parts, strict=True))


def is_count(module: ModuleIndex, node: ast.expr, depth: int = _DEEPEST) -> bool:
    """Return whether a value is a number of elements, or a sum of such: ``total += labels.size(0)``."""
    if not depth:
        return False
    match node:
        case ast.Constant(value=int() | float()) | ast.Call(func=ast.Name(id="len")):
            return True
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in _SIZES
        case ast.Subscript(value=ast.Attribute(attr="shape"), slice=index):
            return not isinstance(index, ast.Slice)
        case ast.BinOp(left=left, right=right):
            return is_count(module, left, depth - 1) and is_count(module, right, depth - 1)
        case ast.Name(id=name):
            starts, added = with_sums(module, node, reaching(module, module.scope(node).lookup(name), node))
            values = [*added, *(bound_part(one) for one in starts if one.kind is BindingKind.ASSIGN)]
            if len(values) > _MOST_VALUES:
                return False
            known = 0 < len(starts) == len(values) - len(added)
            return known and all(value is not None and is_count(module, value, depth - 1) for value in values)
    return False
