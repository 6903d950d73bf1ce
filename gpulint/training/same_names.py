"""Loaders that branches of a function bind to one name: what reads the name may get any of them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.reaching_definitions import reaching
from gpulint.training.loader_flow import LoaderFlow

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.training.loader_calls import Loader
    from gpulint.workspace.module_index import ModuleIndex

MOST = 8
"""Most loaders of one name that are alternatives: a name with more is used for one after another."""


@query
def alternatives(project: Project, loader: Loader) -> list[Loader]:
    """Return the other loaders that the function of a loader may bind to its name instead."""
    module, name = loader.module, loader.variable
    if not name:
        return []
    function = module.function(loader.node)
    others = [
        one
        for one in project.fact(LoaderFlow).in_module(module)
        if one.node is not loader.node and one.variable == name and module.function(one.node) is function
    ]
    if len(others) >= MOST:
        return []
    return [one for one in others if _exclude_each_other(loader, one) or _reach_one_use(module, name, loader, one)]


def _exclude_each_other(one: Loader, other: Loader) -> bool:
    """Return whether two loaders are in the two branches of a condition."""
    branches = [{*map(id, _statements(loader))} for loader in (one, other)]
    return any(
        (any(id(part) in first for part in up.body) and any(id(part) in second for part in up.orelse))
        for first, second in (branches, branches[::-1])
        for up in one.module.syntax.ancestors(one.node)
        if isinstance(up, ast.If)
    )


def _statements(loader: Loader) -> list[ast.AST]:
    return [up for up in loader.module.syntax.ancestors(loader.node) if isinstance(up, ast.stmt)]


def _reach_one_use(module: ModuleIndex, name: str, one: Loader, other: Loader) -> bool:
    """Return whether a place reads the name that may get either of two loaders."""
    for use in module.uses.get(name, ()):
        if not isinstance(use.ctx, ast.Load) or module.function(use) is not module.function(one.node):
            continue
        bound = reaching(module, module.scope(use).lookup(use.id), use)
        made = {part for binding in bound if binding.value is not None for part in walk(binding.value)}
        if one.node in made and other.node in made:
            return True
    return False
