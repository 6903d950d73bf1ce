"""Elements of tensors that assignments copy one by one into a tensor in host memory: ``losses[n] = loss[b]``."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from gpulint.documents.call_syntax import keyword_value
from gpulint.placement.host_results import is_cpu, makes_tensor
from gpulint.placement.subscript_indices import loops_around
from gpulint.semantic.points_to import Resolver
from gpulint.semantic.reaching_definitions import reaching
from gpulint.workspace.module_index import BindingKind, ModuleIndex

if TYPE_CHECKING:
    from gpulint.project import Project

_SETS_DEFAULT = (b"set_default_tensor_type(", b"set_default_device(", b"with torch.device(")
"""What changes where tensors are made that name no device."""


def copied_element(
    project: Project, module: ModuleIndex, target: ast.Subscript, is_tensor: Callable[[ModuleIndex, ast.expr], bool]
) -> ast.Subscript | None:
    """Return the element of a tensor on the GPU that an assignment in a loop copies into ``target``, a place of a
    tensor that is in host memory for certain; None if it copies none."""
    match module.syntax.parents.get(target), target.value:
        case ast.Assign(targets=[only], value=ast.Subscript(value=source) as copied), ast.Name() if only is target:
            if not loops_around(module, target) or any(map(project.python_files_with, _SETS_DEFAULT)):
                return None
            if not _is_all(module, target.value, lambda made: _is_on_host(project, module, made)):
                return None
            on_gpu = is_tensor(module, source) or _is_all(
                module,
                source,
                lambda made: _is_loss(project, module, made) and any(is_tensor(module, one) for one in made.args),
            )
            return copied if on_gpu else None
    return None


def _is_all(module: ModuleIndex, name: ast.expr, is_so: Callable[[ast.Call], bool]) -> bool:
    """Return whether a variable is only bound to results of calls of which something is so."""
    if not isinstance(name, ast.Name):
        return False
    bindings = reaching(module, module.scope(name).lookup(name.id), name)
    return bool(bindings) and all(
        one.kind is BindingKind.ASSIGN and not one.path and isinstance(one.value, ast.Call) and is_so(one.value)
        for one in bindings
    )


def _is_on_host(project: Project, module: ModuleIndex, made: ast.Call) -> bool:
    """``torch.zeros(n)``"""
    if any(keyword.arg is None for keyword in made.keywords):
        return False
    device = keyword_value(made, "device")
    return (device is None or is_cpu(device)) and makes_tensor(project, module, made)


def _is_loss(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call is to a function or layer of ``torch.nn``: ``F.cross_entropy(...)``,
    ``nn.CrossEntropyLoss()(...)``."""
    resolver = project.fact(Resolver)
    names = set(resolver.call_names(module, call))
    for made in resolver.points_to(module, call.func):
        names |= resolver.call_names(made.module, made.node) if isinstance(made.node, ast.Call) else frozenset()
    return any(name.startswith("torch.nn.") for name in names)
