"""What only runs for those who ask for it: behind a switch that is off, or in a helper that is called there alone."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.facts.scopes import FUNCTIONS, ModuleScopes

if TYPE_CHECKING:
    from gpulint.project import Project

CALLS_UP = 2


def opted_in(project: Project, scopes: ModuleScopes, node: ast.AST, depth: int = CALLS_UP) -> bool:
    """Does it only run for those who ask for it (``--download``, ``def resnet(pretrained=False)``)? Nobody here does.

    True also for a helper (at most ``depth`` calls up) all of whose callers stand behind such a switch. In a program
    a switch between two ways to make the same thing does not count: which of them its user takes is not known.
    """
    if project.guards.off_by_default(scopes, node):
        return not project.downloads.is_program(scopes) or not _is_choice(scopes, node)
    function = scopes.function(node)
    if function is None or not depth:
        return False
    sites = project.resolver.call_sites(scopes, function)
    return bool(sites) and all(opted_in(project, site.scopes, site.node, depth - 1) for site in sites)


def _is_choice(scopes: ModuleScopes, node: ast.AST) -> bool:
    """Is what a download is assigned to also set in another branch (``else: model = resnet18()``)?"""
    inner, names = node, set[str]()
    for up in scopes.module.ancestors(node):
        if isinstance(up, ast.Assign):
            names = {ast.unparse(target) for target in up.targets}
        elif isinstance(up, ast.IfExp | ast.Return):
            return True
        elif isinstance(up, ast.If) and inner is not up.test:
            for statement in up.orelse if inner in up.body else up.body:
                stored = (part for part in ast.walk(statement) if isinstance(part, ast.Assign))
                if any(ast.unparse(target) in names for part in stored for target in part.targets):
                    return True
        elif isinstance(up, (*FUNCTIONS, ast.ClassDef)):
            break
        inner = up
    return False
