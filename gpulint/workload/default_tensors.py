"""Programs whose tensors are made on the GPU where no device is given: those of labels in the default collate function
as well, which forked workers cannot make."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.programs.multi_gpu_use import MultiGpuUse
from gpulint.query import query

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

_FOR_GOOD = regex.compile(r"set_default_tensor_type\(\s*['\"]?torch\.cuda|set_default_device\(\s*(?!['\"]cpu)")
_ANYWHERE = regex.compile(_FOR_GOOD.pattern + r"|with torch\.device\((?!['\"](?:cpu|meta))")
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
    return frozenset(path for path in found if project.matches(path, _ANYWHERE if anywhere else _FOR_GOOD))
