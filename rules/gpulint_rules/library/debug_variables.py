"""Debug modes that variables of the environment switch on: in programs, and in what starts them."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.finding import Place
from gpulint.programs.environment_variables import EnvironmentSetting, is_unset_below, settings
from gpulint.query import query
from gpulint.rule import Kind
from gpulint.training.guards import Guards
from gpulint_rules.library.debug_places import (
    comes_too_late,
    gets_to_programs,
    is_set_for_nobody,
    is_switched_on,
    programs_with,
)
from gpulint_rules.library.opposite_switches import always_runs
from gpulint_rules.library.shared_switches import Switch, grouped, switch

if TYPE_CHECKING:
    from gpulint.documents.base import Document
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

LAUNCHES = "CUDA_LAUNCH_BLOCKING"
VARIABLES = {
    LAUNCHES: frozenset({"1", "true", "True", "on"}),
    "TORCH_DISTRIBUTED_DEBUG": frozenset({"DETAIL", "detail"}),
}
"""Variables, and the values that switch a mode on."""
MAX_FILES = 60
"""Most files that are compared."""


def stays_set(project: Project, document: Document, setting: EnvironmentSetting) -> bool:
    """Return whether usual runs of a program get a variable, and in time."""
    module = project.module(document)
    if module is None or not isinstance(setting.node, ast.expr):
        return gets_to_programs(project, document, setting)
    return not (
        project.fact(Guards).is_debugging(module, setting.node)
        or is_switched_on(project, module, setting.node)
        or (setting.name == LAUNCHES and comes_too_late(project, module, setting.node))
        or is_set_for_nobody(project, module, setting.node)
        or is_unset_below(document, project, module, setting)
    )


def switch_of(project: Project, document: Document, setting: EnvironmentSetting) -> Switch:
    """Return a setting as a switch, with the programs that get it."""
    module = project.module(document)
    if module is not None and isinstance(setting.node, ast.expr):
        return switch(project, module, setting.node)
    return Switch(Place(document.path, setting.span), None, programs_with(project, document, setting))


@query
def set_together(project: Project, name: str) -> list[list[Switch]]:
    """Return where a variable of the environment is set in each run, those that meet in some run together."""
    paths = [path for path in project.files_with(name.encode()) if _may_set(project, path)]
    return grouped(
        switch_of(project, document, setting)
        for path in paths[:MAX_FILES]
        if (document := project.document(path)) is not None
        for setting in settings(document, project, frozenset({name}))
        if setting.value in VARIABLES[name] and not setting.conditional
        if _is_set_always(project, project.module(document), setting) and stays_set(project, document, setting)
    )


def _may_set(project: Project, path: Path) -> bool:
    return path.suffix != ".ipynb" and project.kind(path) in (Kind.PYTHON, Kind.SHELL, Kind.JOBSPEC, Kind.DOCKERFILE)


def _is_set_always(project: Project, module: ModuleIndex | None, setting: EnvironmentSetting) -> bool:
    return module is None or not isinstance(setting.node, ast.expr) or always_runs(project, module, setting.node)
