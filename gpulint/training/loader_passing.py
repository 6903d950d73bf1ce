"""Places that never get the batches of a loader, because of what the calls that pass it on say besides."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.semantic.points_to import Resolver
from gpulint.training.call_values import is_kept_out

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
    maker = loader.module.function(loader.node)
    sites = [
        site
        for site in project.fact(Resolver).call_sites(module, function)
        if isinstance(site.node, ast.Call)
        and site.module.path == loader.module.path
        and site.module.function(site.node) is maker
        and any(isinstance(part, ast.Name) and part.id == loader.variable for part in walk(site.node))
    ]
    return bool(sites) and all(is_kept_out(project, module, node, (site,)) for site in sites)
