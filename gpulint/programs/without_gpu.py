"""Functions of a module of a GPU program that only programs without a GPU call."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.programs.gpu_programs import GpuPrograms
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.word_index import word_of

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex

MAX_STEPS = 3
"""How many functions of the module lead from a program to a place."""


def is_only_called_without_gpu(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    """Return whether a place is in a function of the module that other modules call and none of those runs on a GPU.
    A function that is passed on or that a text names may be called by any program."""
    owner = next((up for up in module.syntax.ancestors(node) if up in module.syntax.tree.body), None)
    return isinstance(owner, ast.FunctionDef) and _is_only_called_there(project, module, owner, MAX_STEPS)


@query
def _is_only_called_there(project: Project, module: ModuleIndex, function: ast.FunctionDef, steps: int) -> bool:
    sites = project.fact(Resolver).call_sites(module, function)
    if not sites or not steps or function.decorator_list or _is_handed_on(project, function.name):
        return False
    programs, called = project.fact(GpuPrograms), False
    for site in sites:
        if site.module is not module:
            if programs.runs_on_gpu(site.module):
                return False
            called = True
            continue
        owner = next((up for up in module.syntax.ancestors(site.node) if up in module.syntax.tree.body), None)
        if owner is function:
            continue
        if not isinstance(owner, ast.FunctionDef) or not _is_only_called_there(project, module, owner, steps - 1):
            return False
        called = True
    return called


@query
def _is_handed_on(project: Project, name: str) -> bool:
    """Return whether a module of the tree passes on a function of that name, or names it in a text."""
    modules = (project.module_at(path) for path in project.word_index.mentioning(word_of(name)))
    return any(
        one is None or name in one.handed_over or any(name in text for text in one.strings) or _is_kept(one, name)
        for one in modules
    )


def _is_kept(module: ModuleIndex, name: str) -> bool:
    """Return whether a module reads the name of a function other than to call it (``STEPS = [encode]``)."""
    named = module.named.get(name, ())
    called = {id(call.func) for call in module.calls_by_name.get(name, ())}
    return any(id(node) not in called for node in named)
