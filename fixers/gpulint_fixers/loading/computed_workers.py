"""Numbers of workers that a program computes where it makes its loader, and never passes on."""

from __future__ import annotations

import ast
from collections.abc import Collection

from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.semantic.path_conditions import conditions
from gpulint.training.loader_calls import Loader
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import Binding, BindingKind, ModuleIndex, last_name

_COUNTS = frozenset({"cpu_count", "sched_getaffinity", "process_cpu_count"})
"""Functions that say how many cores there are."""


def computed(project: Project, loader: Loader, names: Collection[str]) -> str | None:
    """Return the variable above a loader, of one of some names, that is certainly set from an option for workers or the
    number of cores, and that nothing but loaders get."""
    module, scope = loader.module, loader.module.scope(loader.node)
    for name in names:
        bindings = scope.lookup(name)
        uses = [module.syntax.parents.get(use) for use in module.uses.get(name, ()) if isinstance(use.ctx, ast.Load)]
        served = all(isinstance(up, ast.keyword) and up.arg in names for up in uses)
        if not bindings or not served or any(one.scope is not scope for one in bindings):
            continue
        if all(_counts_workers(project, module, one, names) for one in bindings) and _is_bound(loader, bindings):
            return name
    return None


def _counts_workers(project: Project, module: ModuleIndex, binding: Binding, names: Collection[str]) -> bool:
    """Return whether a variable is set to a number of workers that is not 0, as far as it is known."""
    value = binding.value
    if binding.kind is not BindingKind.ASSIGN or binding.path or value is None:
        return False
    if not any(
        (isinstance(part, ast.Call) and last_name(part.func) in _COUNTS)
        or (isinstance(part, ast.Attribute) and part.attr in names)
        or (isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Constant) and part.slice.value in names)
        for part in walk(value)
    ):
        return False
    text = ast.unparse(value)
    known = [one for one in project.fact(Constants).of(module, value).values if not isinstance(one.value, str)]
    excluded = any(text in ast.unparse(test) for test, _ in conditions(module, binding.node))
    return all(isinstance(one.value, int) and (one.value > 0 or (one.value < 0 and excluded)) for one in known)


def _is_bound(loader: Loader, bindings: list[Binding]) -> bool:
    """Return whether statements above a loader set a variable in any case."""
    parents, nodes = loader.module.syntax.parents, {one.node for one in bindings}
    if any(getattr(node, "lineno", 0) >= loader.node.lineno for node in nodes):
        return False
    inner: ast.AST = loader.node
    while (up := parents.get(inner)) is not None:
        for block in (getattr(up, name, None) for name in ("body", "orelse", "finalbody")):
            if isinstance(block, list) and inner in block and _binds(block[: block.index(inner)], nodes):
                return True
        inner = up
    return False


def _binds(statements: list[ast.stmt], nodes: Collection[ast.AST]) -> bool:
    return any(
        one in nodes
        or (isinstance(one, ast.If) and _binds(one.body, nodes) and _binds(one.orelse, nodes))
        or (isinstance(one, ast.With) and _binds(one.body, nodes))
        for one in statements
    )
