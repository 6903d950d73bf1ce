"""Programs of TensorFlow that run without a GPU: they hide it, or their packages are built for the CPU."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.programs.gpu_programs import MAX_USERS, GpuPrograms, runs_elsewhere
from gpulint.programs.package_lists import lists_above
from gpulint.query import query

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

_HIDES = regex.compile(
    r"""^\w[\w.]*\.set_visible_devices\(\s*\[\s*\]\s*,\s*(?:device_type\s*=\s*)?["']GPU""", re.MULTILINE
)
_ON_CPU = regex.compile(r"^[ \t\"'-]*(?:intel[-_])?tensorflow[-_]cpu\b", re.MULTILINE)
_ANY = regex.compile(r"^[ \t\"'-]*tensorflow(?:[-_](?:gpu|rocm))?(?![\w-])", re.MULTILINE)


def is_without_gpu(project: Project, module: ModuleIndex) -> bool:
    """Return whether the module, or each program that imports it, hides the GPUs, or the nearest list of packages with
    TensorFlow names the build for CPUs alone."""
    if _hides(module):
        return True
    paths = islice(project.fact(GpuPrograms).users(module.path), MAX_USERS)
    users = [user for path in paths if (user := project.module_at(path)) is not None]
    if users and "__main__" not in module.syntax.source.text and all(map(_hides, users)):
        return True
    for lists in lists_above(project, module.path):
        named = [_names(project, path) for path in lists]
        if any(named):
            return "any" not in named and "cpu" in named
    return False


@query
def _hides(module: ModuleIndex) -> bool:
    return runs_elsewhere(module) or regex.occurs(_HIDES, module.syntax.source.text)


@query
def _names(project: Project, path: Path) -> str:
    text = project.data(path).decode("utf-8", "replace")
    if regex.occurs(_ANY, text):
        return "any"
    return "cpu" if regex.occurs(_ON_CPU, text) else ""
