"""Programs whose tensors are made on the GPU where no device is given: those of labels in the default collate function
as well, which forked workers cannot make."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.programs.multi_gpu_use import MultiGpuUse
from gpulint.query import query
from gpulint.workspace.module_index import LOOPS, dotted, last_name

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

_FOR_GOOD = regex.compile(r"set_default_tensor_type\(\s*['\"]?torch\.cuda|set_default_device\(\s*(?!['\"]cpu)")
_ANYWHERE = regex.compile(_FOR_GOOD.pattern + r"|with torch\.device\((?!['\"](?:cpu|meta))")
_MAY_DRAW = regex.compile(
    r"train|fit|main|run|epoch|eval|test|valid|iter|next|step|batch|load|data|sample|call", re.IGNORECASE
)
"""Calls in which batches may be made."""
_SETS_DEFAULT = (b"set_default_tensor_type(", b"set_default_device(", b"with torch.device(")
"""What only files with such a setting hold."""


@query
def defaults_to_gpu(project: Project, module: ModuleIndex, anywhere: bool) -> bool:
    """Return whether a program with the module makes tensors on the GPU where no device is given; with ``anywhere``
    also if it does so in some statements only (``with torch.device("cuda"):``)."""
    setting = _setting_default_device(project, anywhere)
    # Few trees have such a file, and only for those is it worth knowing what each program imports.
    return bool(setting) and any(
        not setting.isdisjoint(project.fact(MultiGpuUse).of(program).files)
        for program in (module.path, *project.fact(GpuPrograms).users(module.path))
    )


@query
def _setting_default_device(project: Project, anywhere: bool) -> frozenset[Path]:
    """The Python files that may set the device of tensors which are made without one."""
    found = {path for text in _SETS_DEFAULT for path in project.python_files_with(text)}
    return frozenset(
        path
        for path in found
        if project.matches(path, _FOR_GOOD)
        or (anywhere and project.matches(path, _ANYWHERE) and _draws_within(project, path))
    )


def _draws_within(project: Project, path: Path) -> bool:
    """Return whether a file makes batches, or may do so in what it calls, while another device is the default: not
    where it only makes models and their parameters (``with torch.device("cuda"): model = Net()``)."""
    module = project.module_at(path)
    if module is None:
        return True
    return any(
        isinstance(part, LOOPS) or (isinstance(part, ast.Call) and _may_draw(module, block, part))
        for block in module.syntax.of(ast.With)
        if any(isinstance(one.context_expr, ast.Call) and _is_device(one.context_expr) for one in block.items)
        for statement in block.body
        for part in walk(statement)
    )


def _may_draw(module: ModuleIndex, block: ast.With, call: ast.Call) -> bool:
    name = last_name(call.func)
    makes_tensor = dotted(call.func).startswith("torch.") and name[:1].islower()
    return bool(_MAY_DRAW.search(name)) or (makes_tensor and module.class_of(block) is None)


def _is_device(call: ast.Call) -> bool:
    return dotted(call.func) == "torch.device"
