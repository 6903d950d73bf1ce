"""Elements of tensors that assignments copy one by one into a tensor in host memory: ``losses[n] = loss[b]``."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from gpulint.documents.call_syntax import keyword_value
from gpulint.placement.host_results import is_cpu, makes_tensor
from gpulint.placement.host_targets import is_only_result, names_of_called
from gpulint.placement.subscript_indices import loops_around
from gpulint.workspace.module_index import ModuleIndex

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
            if not is_only_result(module, target.value, lambda made: _is_on_host(project, module, made)):
                return None
            on_gpu = is_tensor(module, source) or is_only_result(
                module,
                source,
                lambda made: _is_loss(project, module, made) and any(is_tensor(module, one) for one in made.args),
            )
            return copied if on_gpu else None
    return None


def _is_on_host(project: Project, module: ModuleIndex, made: ast.Call) -> bool:
    """``torch.zeros(n)``"""
    if any(keyword.arg is None for keyword in made.keywords):
        return False
    device = keyword_value(made, "device")
    return (device is None or is_cpu(device)) and makes_tensor(project, module, made)


def _is_loss(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call is to a function or layer of ``torch.nn``: ``F.cross_entropy(...)``,
    ``nn.CrossEntropyLoss()(...)``."""
    return any(name.startswith("torch.nn.") for name in names_of_called(project, module, call))
