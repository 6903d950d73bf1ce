"""What only runs for those who ask for it: behind a switch that is off, or in a helper that is called there alone."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.facts.conditions import conditions
from gpulint.facts.scopes import FunctionNode, ModuleScopes, written

if TYPE_CHECKING:
    from gpulint.project import Project

CALLS_UP = 2
_DOWNLOADS = regex.compile(r"download|fetch")


def opted_in(project: Project, scopes: ModuleScopes, node: ast.AST, depth: int = CALLS_UP) -> bool:
    """Does a download only happen to those who ask for it (``--download``, ``def resnet(pretrained=False)``)? Nobody
    here does.

    True also for a helper (at most ``depth`` calls up) all of whose callers stand behind such a switch. In a program
    the switch must speak of downloading: who asks for something else (``--distill``) gets the download unasked.
    """
    if project.guards.off_by_default(scopes, node):
        return not project.downloads.is_program(scopes) or any(
            _DOWNLOADS.search(written(scopes, test).lower()) for test, _ in conditions(scopes, node)
        )
    function = scopes.function(node)
    if function is None or not depth:
        return False
    question = "opted in", function, depth
    return project.memo.ask(question, lambda: _is_called_by_choice(project, scopes, function, depth - 1), False)


def _is_called_by_choice(project: Project, scopes: ModuleScopes, function: FunctionNode, depth: int) -> bool:
    sites = project.resolver.call_sites(scopes, function)
    return bool(sites) and all(opted_in(project, site.scopes, site.node, depth) for site in sites)
