"""Functions that raise an error before they hand out a loader, which no change of the loader makes any faster."""

from __future__ import annotations

import ast

from gpulint.project import Project
from gpulint.semantic.failing_results import failures
from gpulint.training.loader_calls import Loader


def never_made(project: Project, loader: Loader) -> str:
    """Return why a loader is never made, as a text for a person; empty where nothing says so."""
    function = loader.module.function(loader.node)
    found = failures(project, loader.module, function) if function is not None else ()
    for failed in found:
        if failed.lineno > (loader.node.end_lineno or loader.node.lineno):
            continue
        if isinstance(failed, ast.Name):
            return f"the function always raises an error first: nothing defines `{failed.id}`"
        return f"the function always raises an error, in line {failed.lineno}"
    return ""
