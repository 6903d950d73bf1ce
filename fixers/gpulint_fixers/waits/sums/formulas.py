"""Functions of the tree that are formulas, which compute the same of tensors as of numbers."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import ModuleIndex


def is_formula(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether a function of the tree only computes sums, products and quotients of what it is given."""
    callees = project.fact(Resolver).callees(module, call)
    match [ref.node for ref in callees]:
        case [ast.FunctionDef(body=[*above, ast.Return(value=ast.expr() as value)], args=given, decorator_list=[])]:
            plain = (ast.BinOp, ast.Name, ast.Constant)
            names = {arg.arg for arg in given.args}
            return all(isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) for one in above) and all(
                isinstance(part, plain)
                and (not isinstance(part, ast.Name) or part.id in names)
                and (not isinstance(part, ast.Constant) or isinstance(part.value, int | float))
                and (not isinstance(part, ast.BinOp) or isinstance(part.op, ast.Add | ast.Sub | ast.Mult | ast.Div))
                for part in walk(value)
            )
    return False
