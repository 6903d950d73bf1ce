"""Loaders whose batches are kept in a list, or made ahead by a thread."""

from __future__ import annotations

import ast
import re

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.training.loader_calls import Loader
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, last_name

_AHEAD = regex.compile(r"background|prefetch|thread", re.IGNORECASE)
"""Names of what makes batches while others are used."""


def is_kept(loader: Loader) -> bool:
    """Return whether all that is done with a loader is to keep its batches in a list, once: ``list(loader)``."""
    module, name = loader.module, loader.variable
    home = module.scope(loader.node).lookup(name) if name else []
    uses = [use for use in module.uses.get(name, ()) if home and module.scope(use).lookup(name) is home]
    loads = [use for use in uses if isinstance(use.ctx, ast.Load)]
    return bool(loads) and all(_is_collected(module, use) for use in loads)


def _is_collected(module: ModuleIndex, use: ast.expr) -> bool:
    up = module.syntax.parents.get(use)
    if isinstance(up, ast.Call) and isinstance(up.func, ast.Name) and up.func.id == "iter":
        use, up = up, module.syntax.parents.get(up)
    match up:
        case ast.Call(func=ast.Name(id="list" | "tuple"), args=[inner]) if inner is use:
            collected: ast.AST | None = up
        case ast.comprehension(iter=inner) if inner is use:
            collected = module.syntax.parents.get(up)
        case _:
            return False
    if not isinstance(collected, ast.Call | ast.ListComp):
        return False
    return isinstance(module.syntax.parents.get(collected), ast.Assign) and not any(
        isinstance(around, ast.For | ast.While) for around in module.syntax.ancestors(collected)
    )


def is_made_ahead(project: Project, loader: Loader) -> bool:
    """Return whether a class of loaders iterates by what makes batches ahead (``BackgroundGenerator``)."""
    if not isinstance(loader.node, ast.Call):
        return False
    for origin in project.fact(Resolver).points_to(loader.module, loader.node.func):
        if isinstance(origin.node, ast.ClassDef):
            methods = (part for part in origin.node.body if isinstance(part, FUNCTIONS) and part.name == "__iter__")
            calls = (part for method in methods for part in walk(method) if isinstance(part, ast.Call))
            if any(_AHEAD.search(last_name(call.func)) for call in calls):
                return True
    return False
