"""Functions that end before a place: they import a module that is not there."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.assessment.moved_imports import are_broken
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import FUNCTIONS, FunctionNode, ModuleIndex

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject
    from gpulint.project import Project

MAX_CALLS = 3
"""Most calls between an import and a place."""


def ends_before(subject: Subject) -> bool:
    """Return whether a function around a place imports a module that is not there above it, or each function that
    calls it does so above its call."""
    module, node = subject.module, subject.node
    if module is None or node is None or subject.is_notebook:
        return False
    return _ends(subject.project, module, node, MAX_CALLS)


def _ends(project: Project, module: ModuleIndex, node: ast.AST, calls: int) -> bool:
    line = getattr(node, "lineno", 0)
    functions = [up for up in module.syntax.ancestors(node) if isinstance(up, FUNCTIONS)]
    if any((_failing_line(project, module, one) or line) < line for one in functions):
        return True
    if not functions or not calls or functions[0].name in module.handed_over:
        return False
    sites = project.fact(Resolver).call_sites(module, functions[0])
    return bool(sites) and all(_ends(project, site.module, site.node, calls - 1) for site in sites)


@query
def _failing_line(project: Project, module: ModuleIndex, function: FunctionNode) -> int | None:
    """The line of a function's first import, outside of blocks, of what is not there."""
    imports = (part for part in function.body if isinstance(part, ast.Import | ast.ImportFrom))
    return next((part.lineno for part in imports if are_broken(project, module, [part])), None)
