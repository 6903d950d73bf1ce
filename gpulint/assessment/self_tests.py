"""Values that a module sets when it tries itself: the programs that import it set others."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpulint.launch.job_index import JobIndex
from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.query import query
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.training.loop_contexts import LoopContexts
from gpulint.workspace.module_index import FUNCTIONS, FunctionNode, ModuleIndex, source_text

if TYPE_CHECKING:
    from gpulint.finding import Place
    from gpulint.project import Project
    from gpulint.values.constants import Value

MAX_CALLS = 3
"""Most functions between the main part of a module and a value."""


def in_programs(project: Project, values: Iterable[Value]) -> list[Value]:
    """Return the values that are not set by self-tests of modules of which other programs use classes."""
    return [value for value in values if not _is_tried(project, value.place)]


def _is_tried(project: Project, place: Place) -> bool:
    module = project.module_at(place.path) if place.span.cell is None else None
    if module is None or not _is_library(project, module):
        return False
    around = [part for part in module.functions if _holds(part, place.span.line)]
    inner = max(around, key=lambda part: part.lineno, default=None)
    if inner is not None:
        return _is_called_by_main(project, module, inner, MAX_CALLS)
    return any(_holds(part, place.span.line) for part in _mains(module))


@query
def _is_library(project: Project, module: ModuleIndex) -> bool:
    """Return whether a module has classes that others import, takes no training step, and is started by no job."""
    return (
        bool(module.classes)
        and any(True for _ in project.fact(GpuPrograms).users(module.path))
        and not project.fact(LoopContexts).has_training_step(module)
        and not any(item.start.program == module.path for item in project.fact(JobIndex).launches_of(module.path))
    )


def _mains(module: ModuleIndex) -> list[ast.If]:
    """``if __name__ == "__main__":``"""
    return [
        part
        for part in module.syntax.tree.body
        if isinstance(part, ast.If) and "__main__" in source_text(module, part.test)
    ]


def _holds(part: ast.AST, line: int) -> bool:
    first, last = getattr(part, "lineno", 0), getattr(part, "end_lineno", None) or 0
    return bool(first <= line <= last)


@query
def _is_called_by_main(project: Project, module: ModuleIndex, function: FunctionNode, calls: int) -> bool:
    """Return whether only the main part of a module leads to a function of it."""
    sites = project.fact(Resolver).call_sites(module, function) if calls else ()
    for site in sites:
        if site.module is not module:
            return False
        caller = module.function(site.node)
        if isinstance(caller, FUNCTIONS):
            if not _is_called_by_main(project, module, caller, calls - 1):
                return False
        elif not any(
            holds and "__main__" in source_text(module, test) for test, holds in conditions(module, site.node)
        ):
            return False
    return bool(sites)
