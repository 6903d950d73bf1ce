"""Code that raises an error whenever it runs, for it unpacks what a function does not return."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.python import walk
from gpulint.query import query
from gpulint.semantic.path_conditions import conditions
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import FUNCTIONS, LOOPS

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import FunctionNode, ModuleIndex

_ENDS = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_CATCHES = (ast.Try, ast.TryStar, ast.ExceptHandler, ast.Match, ast.ClassDef, *FUNCTIONS, *LOOPS)


@query
def unpacks_nothing(project: Project, module: ModuleIndex, block: ast.AST) -> bool:
    """Return whether each run of a function or a loop unpacks what a function of the tree returns that returns
    nothing: ``_, accuracy = score(output, target)``."""
    return any(_unpacks(project, module, part) and _always(module, part, block) for part in walk(block))


def _unpacks(project: Project, module: ModuleIndex, node: ast.AST) -> bool:
    match node:
        case ast.Assign(targets=[ast.Tuple() | ast.List()], value=ast.Call(func=ast.Name()) as call):
            found = project.fact(Resolver).callees(module, call)
            return len(found) == 1 and isinstance(found[0].node, ast.FunctionDef) and _returns_nothing(found[0].node)
    return False


def _returns_nothing(function: FunctionNode) -> bool:
    own = list(walk(function))
    return not function.decorator_list and not any(
        isinstance(part, ast.Yield | ast.YieldFrom) or (isinstance(part, ast.Return) and part.value is not None)
        for part in own
    )


def _always(module: ModuleIndex, node: ast.AST, block: ast.AST) -> bool:
    """Return whether each run of a block gets to a statement, and nothing catches its error."""
    below = node
    for up in module.syntax.ancestors(node):
        if up is block:
            body = getattr(block, "body", [])
            known = below in body and not any(isinstance(one, _ENDS) for one in body[: body.index(below)])
            return known and not any(True for _ in conditions(module, node, block))
        if isinstance(up, _CATCHES):
            return False
        below = up
    return False
