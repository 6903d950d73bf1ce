"""Functions that raise an error before they hand out a loader, which no change of the loader makes any faster."""

from __future__ import annotations

import ast

from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.failing_results import failures
from gpulint.training.loader_calls import Loader
from gpulint.workspace.module_index import ModuleIndex


def never_made(project: Project, loader: Loader) -> str:
    """Return why nothing gets a loader, as a text for a person; empty where nothing says so."""
    function = loader.module.function(loader.node)
    return _failure(project, loader.module, function) if function is not None else ""


@query
def _failure(project: Project, module: ModuleIndex, function: ast.AST) -> str:
    for failed in failures(project, module, function):
        if isinstance(failed, ast.Name):
            return f"the function always raises an error first: nothing defines `{failed.id}`"
        return f"the function always raises an error, in line {failed.lineno}"
    return ""
