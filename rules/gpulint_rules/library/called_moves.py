"""Moves to a GPU in what a statement calls or imports, whose own words tell nothing of them."""

from __future__ import annotations

import ast
from pathlib import Path

from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.training.call_values import truth
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef

MAX_CALLS = 3
"""Most functions within each other that are looked into."""
_COMPOUND = (*FUNCTIONS, ast.ClassDef, ast.If, ast.Try, ast.For, ast.While, ast.With)


def moves_below(project: Project, module: ModuleIndex, statement: ast.stmt) -> bool:
    """Return whether a statement surely moves something to a GPU in functions that it calls, or imports a module that
    does so by itself."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return any(_moves_at_import(project, path) for path in _imported(project, module, statement))
    if isinstance(statement, _COMPOUND):
        return False
    calls = (part for part in walk(statement) if isinstance(part, ast.Call))
    return any(_moves(project, module, call, ()) for call in calls)


def _imported(project: Project, module: ModuleIndex, statement: ast.Import | ast.ImportFrom) -> list[Path]:
    if isinstance(statement, ast.ImportFrom):
        names = ["." * statement.level + (statement.module or "")]
    else:
        names = [alias.name for alias in statement.names]
    paths = (project.module_path(project.absolute(name, module.path), module.path) for name in names)
    return [path for path in paths if path is not None]


@query
def _moves_at_import(project: Project, path: Path) -> bool:
    module = project.module_at(path)
    return module is not None and any(
        not isinstance(part, (*_COMPOUND, ast.Import, ast.ImportFrom))
        and (any(map(_is_for_gpu, walk(part))) or moves_below(project, module, part))
        for part in module.syntax.tree.body
    )


def _moves(project: Project, module: ModuleIndex, call: ast.Call, calls: tuple[NodeRef, ...]) -> bool:
    """Return whether the one function that a call reaches surely moves something, by what it is passed."""
    callees = project.fact(Resolver).callees(module, call)
    if len(callees) != 1 or not isinstance(callees[0].node, FUNCTIONS):
        return False
    where, function, way = callees[0].module, callees[0].node, (*calls, NodeRef(module, call))
    surely = [
        inner
        for inner in where.calls_of(function)
        if all(truth(project, where, test, way) is holds for test, holds in conditions(where, inner))
    ]
    if any(map(_is_for_gpu, surely)):
        return True
    return len(way) < MAX_CALLS and any(_moves(project, where, inner, way) for inner in surely)


def _is_for_gpu(node: ast.AST) -> bool:
    """``torch.ones(8).cuda()``, ``model.to("cuda:0")``"""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch" | "cuda"), attr="cuda")):
            return False
        case ast.Call(func=ast.Attribute(attr="cuda")):
            return True
        case ast.Call(func=ast.Attribute(attr="to"), args=[ast.Constant(value=str(name)), *_]):
            return name.startswith("cuda")
    return False
