"""Places that never get the batches of a loader, because of what the calls that pass it on say besides."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.semantic.points_to import Resolver
from gpulint.training.call_values import is_kept_out
from gpulint.workspace.module_index import last_name

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader
    from gpulint.workspace.module_index import ModuleIndex


def is_kept_from(project: Project, loader: Loader, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether the function around a place gets a loader only by calls whose other arguments contradict the
    conditions there (``run(test_loader, train=False)`` and ``if train: loss.backward()``)."""
    function = module.function(node)
    if function is None or not loader.variable:
        return False
    sites = [
        site
        for site in project.fact(Resolver).call_sites(module, function)
        if isinstance(site.node, ast.Call) and _passes(loader, site.module, site.node)
    ]
    return bool(sites) and all(is_kept_out(project, module, node, (site,)) for site in sites)


def _passes(loader: Loader, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a call names the loader where it is known: in the function that makes it, or in any method of the
    class that keeps it (``self.test_loader``)."""
    made = loader.module
    if module.path != made.path:
        return False
    if loader.variable.startswith("self."):
        attribute, owner = loader.variable.removeprefix("self."), made.class_of(loader.node)
        return (
            owner is not None
            and module.class_of(call) is owner
            and any(
                isinstance(part, ast.Attribute) and part.attr == attribute and last_name(part.value) == "self"
                for part in walk(call)
            )
        )
    return module.function(call) is made.function(loader.node) and any(
        isinstance(part, ast.Name) and part.id == loader.variable for part in walk(call)
    )
