"""Sums in tensors that are on the GPU already: ``sums[0] += loss.item()``."""

from __future__ import annotations

import ast

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.fix import Declined, Fix, Safety
from gpulint.project import Project
from gpulint.semantic.argument_binding import argument_of
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import FUNCTIONS, Binding, BindingKind, ModuleIndex
from gpulint_fixers.waits.device_reads import is_torch_tensor, reads_of
from gpulint_fixers.waits.element_types import is_integer
from gpulint_fixers.waits.inner_loops.list_indices import stays_as_index

_DEEPEST = 3
"""Functions that hand the tensor on."""


def stored_in_tensor(project: Project, found: HostWait, statement: ast.AugAssign) -> Fix | Declined:
    """``sums[0] += loss.item()`` where ``sums`` is a tensor already: the number need not leave the GPU."""
    target = statement.target
    assert isinstance(target, ast.Subscript)
    if not isinstance(target.value, ast.Name):
        return Declined("the sum is not a variable")
    if not _is_tensor(project, found.module, target.value):
        return Declined("the sum is not a tensor that is made in this function or by all that call it")
    return added_to_tensor(project, found, statement)


def added_to_tensor(project: Project, found: HostWait, statement: ast.AugAssign) -> Fix | Declined:
    """``total += loss.item()`` where ``total`` is a tensor: the same sum without the way over the host."""
    module, reads = found.module, reads_of(project, found)
    if isinstance(reads, Declined):
        return reads
    if len(reads) != 1 or statement.value is not reads[0].whole or not isinstance(statement.op, ast.Add | ast.Sub):
        return Declined("more is done with the number than adding it up")
    edit = reads[0].replaced(module, "" if is_integer(module, reads[0].tensor) else ".detach()")
    certain = is_torch_tensor(project, module, reads[0].tensor)
    made = Fix("add up on the GPU; the sum is the same", Safety.SAFE if certain else Safety.UNSAFE, (edit,))
    return stays_as_index(project, found, made) or made


def is_zeros(value: ast.expr) -> bool:
    """``torch.zeros(2).to(rank)``, in the type that it has by default, and not in host memory."""
    placed = False
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr in ("zeros", "zeros_like"):
            named = {key.arg for key in value.keywords}
            on_device = placed or "device" in named or value.func.attr == "zeros_like"
            return on_device and ast.unparse(value.func.value) == "torch" and "dtype" not in named
        if value.func.attr not in ("to", "cuda") or any(map(_is_host_or_type, value.args)):
            return False
        placed = True
        value = value.func.value
    return False


def _is_host_or_type(argument: ast.expr) -> bool:
    """``.to("cpu")``, ``.to(torch.float64)``"""
    match argument:
        case ast.Constant(value="cpu") | ast.Attribute(value=ast.Name(id="torch")):
            return True
    return False


def _is_tensor(project: Project, module: ModuleIndex, node: ast.Name, depth: int = 0) -> bool:
    """Return whether a variable only ever holds such a tensor, its function's own or one that all callers pass."""
    bindings = module.scope(node).lookup(node.id)
    return bool(bindings) and all(_holds(project, module, node.id, binding, depth) for binding in bindings)


def _holds(project: Project, module: ModuleIndex, name: str, binding: Binding, depth: int) -> bool:
    match binding.kind:
        case BindingKind.AUGMENT:
            return True  # in place
        case BindingKind.ASSIGN if binding.value is not None:
            if not binding.path and is_zeros(binding.value):
                return True
            return isinstance(binding.value, ast.Call) and _returns_same(project, module, binding.value, name, binding)
        case BindingKind.PARAMETER if depth < _DEEPEST:
            return _is_passed(project, module, name, binding, depth)
    return False


def _returns_same(project: Project, module: ModuleIndex, call: ast.Call, name: str, binding: Binding) -> bool:
    """``loss, sums = step(batch, sums)`` of a function that returns the tensor that it was given."""
    resolver = project.fact(Resolver)
    callees = resolver.callees(module, call)
    for callee in callees:
        returns = resolver.returns(callee.node) if isinstance(callee.node, FUNCTIONS) else []
        for value in returns:
            for step in binding.path:
                if not isinstance(value, ast.Tuple) or step >= len(value.elts):
                    return False
                value = value.elts[step]
            assert isinstance(callee.node, FUNCTIONS)
            given = argument_of(callee.node, call, value.id) if isinstance(value, ast.Name) else None
            if not isinstance(given, ast.Name) or given.id != name or not _is_own(callee.module, value):
                return False
        if not returns:
            return False
    return bool(callees)


def _is_own(module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether a function leaves its parameter as it is, or changes it in place."""
    assert isinstance(node, ast.Name)
    kinds = {binding.kind for binding in module.scope(node).lookup(node.id)}
    return kinds <= {BindingKind.PARAMETER, BindingKind.AUGMENT}


def _is_passed(project: Project, module: ModuleIndex, name: str, binding: Binding, depth: int) -> bool:
    """Return whether all calls of the function pass such a tensor."""
    function = binding.scope.node
    if not isinstance(function, FUNCTIONS):
        return False
    sites = project.fact(Resolver).call_sites(module, function)
    for site in sites:
        given = argument_of(function, site.node, name) if isinstance(site.node, ast.Call) else None
        if not isinstance(given, ast.Name) or not _is_tensor(project, site.module, given, depth + 1):
            return False
    return bool(sites)
