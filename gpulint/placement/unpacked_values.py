"""Variables of what is unpacked or added to them: whether that is in host memory."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import Binding, ModuleIndex

if TYPE_CHECKING:
    from gpulint.project import Project


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


def adds_tensors(project: Project, module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether functions of PyTorch make what is added to a variable (``loss = 0.0``, ``loss += torch.mean(x)``),
    so that it may be a tensor."""
    bindings = reaching(module, module.scope(node).lookup(node.id), node) if isinstance(node, ast.Name) else ()
    added = (one.node.value for one in bindings if isinstance(one.node, ast.AugAssign))
    return any(
        name.startswith("torch.")
        for value in added
        for part in ([value.left, value.right] if isinstance(value, ast.BinOp) else [value])
        if isinstance(part, ast.Call)
        for name in project.fact(Resolver).call_names(module, part)
    )
