"""Which loaders of a module belong together: those of a training and its evaluation get the same options."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TypeVar

from gpulint.documents.call_syntax import keyword_value
from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.query import query
from gpulint.training.loader_calls import Loader
from gpulint.training.loader_flow import LoaderFlow
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef

MOST = 8
"""Most loaders that belong together: more of one place are cases of their own."""

T = TypeVar("T")


def by_home(loaders: Iterable[tuple[Loader, T]]) -> dict[ast.AST | None, list[tuple[Loader, T]]]:
    """Return loaders of one module, each with what is known of it, by the class or the function that makes them; None
    is the top of the module. Places with more than a few are left out."""
    found: dict[ast.AST | None, list[tuple[Loader, T]]] = {}
    for loader, known in loaders:
        found.setdefault(_home(loader), []).append((loader, known))
    return {home: items for home, items in found.items() if len(items) <= MOST}


def siblings(homes: dict[ast.AST | None, list[tuple[Loader, T]]], loader: Loader) -> list[T]:
    """Return what is known of the loaders that belong to one."""
    return [known for other, known in homes.get(_home(loader), ()) if other.node is not loader.node]


def made_together(project: Project, loaders: Iterable[Loader]) -> list[Loader]:
    """Return the other loaders that the functions of some return beside them: ``return val_loader, test_loader``."""
    given = {one.node: one for one in loaders}
    found = dict[ast.Call, Loader]()
    for loader in given.values():
        names = {
            name for names in _returned(loader.module, _home(loader)) if loader.variable in names for name in names
        }
        for other in project.fact(LoaderFlow).in_module(loader.module) if names else ():
            if other.node not in given and other.variable in names and _home(other) is _home(loader):
                found[other.node] = other
    return [*found.values()]


@query
def _returned(module: ModuleIndex, home: ast.AST | None) -> tuple[frozenset[str], ...]:
    """The variables that each ``return`` of a function gives together."""
    if not isinstance(home, FUNCTIONS):
        return ()
    return tuple(
        frozenset(one.id for one in node.value.elts if isinstance(one, ast.Name))
        for node in walk(home)
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple)
    )


def setting_of_siblings(project: Project, loader: Loader) -> NodeRef | None:
    """Return the number of workers that other loaders of the class or function get, if it is a setting that is there
    for this one as well (``self.args.workers``), and the same for all."""
    module, home = loader.module, _home(loader)
    others = [one for one in project.fact(LoaderFlow).in_module(module) if one.node is not loader.node]
    given = [keyword_value(one.node, "num_workers") for one in others if home is not None and _home(one) is home]
    found = {ast.unparse(one): one for one in given if isinstance(one, ast.Attribute | ast.Subscript | ast.Name)}
    if len(found) != 1:
        return None
    (setting,) = found.values()
    first = next(part for part in ast.walk(setting) if isinstance(part, ast.Name))
    is_there = isinstance(setting, ast.Attribute) and first.id == "self"
    is_near = module.function(setting) is module.function(loader.node) and setting.lineno < loader.node.lineno
    return NodeRef(module, setting) if is_there or is_near else None


def _home(loader: Loader) -> ast.AST | None:
    function = loader.module.function(loader.node)
    return None if function is None else loader.module.class_of(function) or function
