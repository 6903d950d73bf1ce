"""Which modules a program imports, also through others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.query import query

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

_BY_NAME = regex.compile(r"\b(?:import_module|__import__|instantiate|instantiate_from_config|locate|exec)\(")
"""What imports modules by names that may be in a file."""
MAX_MODULES = 300
"""Most modules of a program that are followed."""


@query
def may_lead_to(project: Project, start: ModuleIndex, module: ModuleIndex) -> bool:
    """Return whether a module, or one that imports it, may import another one."""
    programs = (start.path, *project.fact(GpuPrograms).users(start.path))
    return any(_may_import(project, path, module.path) for path in programs)


def _may_import(project: Project, program: Path, wanted: Path) -> bool:
    found = _imported(project, program)
    return found is None or wanted in found


@query
def _imported(project: Project, program: Path) -> frozenset[Path] | None:
    """Return a module and all that it imports, also through others; None where names decide, or there are too many."""
    seen, left = {program}, [program]
    while left:
        path = left.pop()
        if len(seen) > MAX_MODULES or project.matches(path, _BY_NAME):
            return None
        new = project.imported(path) - seen
        seen |= new
        left += sorted(new)
    return frozenset(seen)
