"""Which devices a wrapper is told to use, through constructors and their callers."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpulint.documents.call_syntax import passed_as
from gpulint.query import cyclic
from gpulint.semantic.points_to import Resolver
from gpulint.values.constants import Constants
from gpulint.workspace.module_index import last_name

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.workspace.module_index import ModuleIndex, NodeRef

_COUNTS = frozenset({"device_count", "len"})
"""What counts the GPUs there are, or a list of them."""


def all_name_one(project: Project, module: ModuleIndex, wrapper: ast.Call, position: int) -> bool:
    """Return whether ``device_ids`` is a list of one device, whichever that is, by its default and for all callers that
    pass it on (``gpu_ids=[args.local_rank]``, or ``range(args.gpus)`` where that is 1 and no launcher passes more)."""
    given = passed_as(wrapper, "device_ids", position)
    if given is None:
        return False
    origins = project.fact(Resolver).points_to(module, given)
    return bool(origins) and all(not one.path and _is_one(project, one) for one in origins)


@cyclic(False)
def _is_one(project: Project, listed: NodeRef) -> bool:
    match listed.node:
        case ast.List(elts=[only]) | ast.Tuple(elts=[only]):
            return not isinstance(only, ast.Starred)
        case (
            ast.ListComp(generators=[ast.comprehension(iter=inner, ifs=[])])
            | ast.Call(func=ast.Name(id="list" | "tuple"), args=[inner], keywords=[])
        ):
            given = project.fact(Resolver).points_to(listed.module, inner)
            return bool(given) and all(not one.path and _is_one(project, one) for one in given)
        case ast.Call(func=ast.Name(id="range"), args=[last] | [ast.Constant(value=0), last], keywords=[]):
            return project.fact(Constants).of(listed.module, last).every(lambda value: value == 1)
        case ast.Call(
            func=ast.Name(id="range"), args=[first, ast.BinOp(left=left, op=ast.Add(), right=ast.Constant(value=1))]
        ):
            return ast.unparse(first) == ast.unparse(left)
    return False


def are_of_unknown_number(project: Project, module: ModuleIndex, wrapper: ast.Call, position: int) -> bool:
    """Return whether ``device_ids`` counts up to a number of which nothing is known (``range(args.gpus)``)."""
    given = passed_as(wrapper, "device_ids", position)
    origins = project.fact(Resolver).points_to(module, given) if given is not None else ()
    ends = [(one.module, last) for one in origins for last in _last(one.node)]
    return bool(ends) and all(
        not project.fact(Constants).of(home, last).values
        and not any(
            isinstance(found.node, ast.Call) and last_name(found.node.func) in _COUNTS
            for found in project.fact(Resolver).points_to(home, last)
        )
        for home, last in ends
    )


def _last(node: ast.AST) -> list[ast.expr]:
    match node:
        case (
            ast.Call(func=ast.Name(id="list" | "tuple"), args=[inner])
            | ast.ListComp(generators=[ast.comprehension(iter=inner)])
        ):
            return _last(inner)
        case ast.Call(func=ast.Name(id="range"), args=[last] | [_, last]):
            return [last]
    return []
