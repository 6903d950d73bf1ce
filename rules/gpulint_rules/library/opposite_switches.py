"""Programs that switch something back which one of their modules has switched."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.programs.multi_gpu_use import MultiGpuUse
from gpulint.semantic.points_to import Resolver
from gpulint.training.differentiation import takes_gradients
from gpulint.training.guards import Guards
from gpulint.workspace.module_index import FUNCTIONS
from gpulint_rules.library.cudnn_layers import MAX_PROGRAMS, programs_of

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import FunctionNode, ModuleIndex

MAX_CALLS = 3
"""Calls that lead from a condition to a switch."""
_Scope = tuple[Path, "FunctionNode | None"]


def is_switched_back(
    project: Project,
    module: ModuleIndex,
    switch: ast.stmt | ast.expr,
    words: re.Pattern[str],
    opposites: Callable[[ModuleIndex], Iterable[ast.stmt | ast.expr]],
) -> bool:
    """Return whether each program that runs a switch also runs one of its ``opposites`` without any condition, and not
    certainly before it. ``words`` are in the files that may have one."""
    programs = programs_of(project, module, switch)
    own = _lines(project, module, switch)
    return 0 < len(programs) <= MAX_PROGRAMS and all(
        any(
            not _is_before(project, _lines(project, part, other), own)
            for part in project.fact(MultiGpuUse).of(path).modules_where(lambda _, one: project.matches(one, words))
            for other in opposites(part)
            if other is not switch
            and (always_runs(project, part, other) or _are_hooks(project, module, switch, part, other))
        )
        for path in programs
    )


def always_runs(project: Project, module: ModuleIndex, node: ast.stmt | ast.expr) -> bool:
    """Return whether a program that runs a module, or calls the function around a place, gets to it in any case."""
    function, guards = module.function(node), project.fact(Guards)
    if guards.is_conditional(module, node):
        return False
    if function is None:
        return True
    sites = project.fact(Resolver).call_sites(module, function)
    return any(not guards.is_conditional(site.module, site.node) for site in sites)


def runs_with_gradients(project: Project, module: ModuleIndex, node: ast.AST, calls: int = MAX_CALLS) -> bool:
    """Return whether runs get to a place if they take gradients: what is around it takes some under the same condition
    (``if args.train: set_up(); train_epoch()``)."""
    function = module.function(node)
    block = next((up for up in module.syntax.ancestors(node) if isinstance(up, (ast.If, *FUNCTIONS))), None)
    if block is not None and not takes_gradients(project, module, block):
        if isinstance(block, ast.If):
            return False
    elif block is not None:
        return True
    sites = project.fact(Resolver).call_sites(module, function) if function is not None and calls else ()
    return any(runs_with_gradients(project, site.module, site.node, calls - 1) for site in sites)


def _are_hooks(
    project: Project,
    module: ModuleIndex,
    one: ast.stmt | ast.expr,
    place: ModuleIndex,
    other: ast.stmt | ast.expr,
) -> bool:
    """Return whether two statements are in two methods of a class that only a framework calls (``on_fit_start`` and
    ``on_train_epoch_end`` of a callback), the second one without any condition."""
    owner, methods = module.class_of(one), (module.function(one), place.function(other))
    return (
        owner is not None
        and owner is place.class_of(other)
        and methods[0] is not methods[1]
        and not project.fact(Guards).is_conditional(place, other)
        and not any(
            method is None or project.fact(Resolver).call_sites(module, method) or method.name.startswith("__")
            for method in methods
        )
    )


def _lines(project: Project, module: ModuleIndex, node: ast.stmt | ast.expr) -> dict[_Scope, int]:
    """The first lines on which functions and modules run a statement, by itself or by a call of its function."""
    function = module.function(node)
    found: dict[_Scope, int] = {(module.path, function): node.lineno}
    for site in project.fact(Resolver).call_sites(module, function) if function is not None else ():
        assert isinstance(site.node, ast.Call)
        scope = (site.module.path, site.module.function(site.node))
        found[scope] = min(site.node.lineno, found.get(scope, site.node.lineno))
    return found


def _is_before(project: Project, one: dict[_Scope, int], other: dict[_Scope, int]) -> bool:
    """Return whether a scope that runs both runs the first one before the other one, or the first one runs when a
    module is imported that the other's module imports, or whose functions run the other."""
    if shared := one.keys() & other.keys():
        return any(one[scope] < other[scope] for scope in shared)
    if any(function is not None for _, function in one):
        return False
    at_import = [path for path, function in other if function is None]
    return not at_import or any(first in project.imported(path) for first, _ in one for path in at_import)
