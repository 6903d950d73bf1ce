"""Functions that no call gets into: each passes an argument that the function does not take."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import FUNCTIONS, FunctionNode
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex


@query
def fails_each_call(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a place is in a function of the module that only its own module names, in calls with a keyword
    that it does not take."""
    function = module.function(node)
    if function is None or function not in module.syntax.tree.body or not isinstance(function, FUNCTIONS):
        return False
    if function.decorator_list or function.args.kwarg is not None:
        return False
    if {*project.word_index.mentioning(word_of(function.name))} - {module.path}:
        return False
    sites = project.fact(Resolver).call_sites(module, function)
    called = {site.node.func for site in sites if isinstance(site.node, ast.Call)}
    return (
        bool(called)
        and called == {*module.uses.get(function.name, ())}
        and all(isinstance(site.node, ast.Call) and _has_other_keyword(function, site.node) for site in sites)
    )


def _has_other_keyword(function: FunctionNode, call: ast.Call) -> bool:
    taken = {argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)}
    return any(keyword.arg is not None and keyword.arg not in taken for keyword in call.keywords)
