"""What only runs for those who ask for it: behind a switch that is off, or in a helper that is called there alone."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.query import cyclic, stored
from gpulint.semantic.call_graph import plain_callers, plain_calls, plain_function
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.training.guards import Guards
from gpulint.transfers.downloads import Downloads
from gpulint.workspace.module_index import FunctionNode, ModuleIndex, source_text

if TYPE_CHECKING:
    from gpulint.project import Project

CALLS_UP = 2
_DOWNLOADS = regex.compile(r"download|fetch")


def requires_opt_in(project: Project, module: ModuleIndex, node: ast.AST, depth: int = CALLS_UP) -> bool:
    """Return whether a download only happens on request (``--download``, ``def resnet(pretrained=False)``). Nobody here
    does.

    True also for a helper (at most ``depth`` calls up) all of whose callers stand behind such a switch. In a program
    the switch must speak of downloading: who asks for something else (``--distill``) gets the download unasked.
    """
    if project.fact(Guards).is_off_by_default(module, node):
        return not project.fact(Downloads).is_program(module) or any(
            _DOWNLOADS.search(source_text(module, test).lower()) for test, _ in conditions(module, node)
        )
    function = module.function(node)
    if function is None or not depth:
        return False
    return _is_called_by_choice(project, module, function, depth - 1)


@cyclic(False)
def _is_called_by_choice(project: Project, module: ModuleIndex, function: FunctionNode, depth: int) -> bool:
    files = (
        plain_callers(project, module.path, function.name)
        if plain_function(module, function.name) is function
        else None
    )
    is_called = False
    # Each file by itself, so that a change of one caller concerns no other; one call without a switch is enough.
    for path in files or ():
        by_choice = _calls_by_choice(project, path, module.path, function.name, depth)
        if by_choice is False:
            return False
        is_called = is_called or by_choice is True
    if is_called:
        return True
    sites = project.fact(Resolver).call_sites(module, function)
    return bool(sites) and all(requires_opt_in(project, site.module, site.node, depth) for site in sites)


@stored("calls by choice")
def _calls_by_choice(project: Project, path: Path, home: Path, name: str, depth: int) -> bool | None:
    """Return whether all calls in a file of a plain function of another stand behind such a switch; None if there are
    none."""
    where, module = project.module_at(path), project.module_at(home)
    function = plain_function(module, name) if module is not None else None
    if where is None or module is None or function is None:
        return None
    calls = [*plain_calls(project, project.fact(Resolver), where, module, function)]
    return all(requires_opt_in(project, where, call, depth) for call in calls) if calls else None
