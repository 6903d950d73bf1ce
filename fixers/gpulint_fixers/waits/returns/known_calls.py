"""All calls of a function, where they are known."""

from __future__ import annotations

import ast

from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.forward_calls import forward_calls
from gpulint.workspace.module_index import FunctionNode, ModuleIndex, NodeRef, last_name
from gpulint.workspace.word_index import word_of

_MOST_SITES = 6
_MOST_FILES = 20


def known_sites(project: Project, module: ModuleIndex, function: FunctionNode) -> tuple[NodeRef, ...] | None:
    """All calls of a function; None if some are unknown, or may reach another function."""
    resolver = project.fact(Resolver)
    is_forward = function.name == "forward" and module.class_of(function) is not None
    sites = _forward_sites(project, module, function) if is_forward else resolver.call_sites(module, function)
    if sites is None or not 0 < len(sites) <= _MOST_SITES:
        return None
    for site in sites:
        if not isinstance(site.node, ast.Call):
            return None
        if [callee.node for callee in resolver.callees(site.module, site.node)] != [function]:
            return None
    return sites


@query
def _forward_sites(project: Project, module: ModuleIndex, function: FunctionNode) -> tuple[NodeRef, ...] | None:
    """The calls of the instances of a model or loss, by the names under which loops call them; None if another call by
    such a name may be one."""
    resolver, found = project.fact(Resolver), [*forward_calls(project, module, function)]
    names = {last_name(site.node.func) for site in found if isinstance(site.node, ast.Call)} | {"forward"}
    for name in sorted(names):
        paths = project.word_index.mentioning(word_of(name))
        if name != "forward" and len(paths) > _MOST_FILES:
            return None
        for path in paths if len(paths) <= _MOST_FILES else [module.path]:
            where = project.module_at(path)
            for call in where.calls_by_name.get(name, []) if where is not None else ():
                assert where is not None
                callees = [callee.node for callee in resolver.callees(where, call)]
                if function in callees:
                    found.append(NodeRef(where, call))
                elif not callees and name != "forward" and _may_get(resolver, where, call, function):
                    return None
    return tuple(dict.fromkeys(found))


def _may_get(resolver: Resolver, where: ModuleIndex, call: ast.Call, function: FunctionNode) -> bool:
    """Return whether a call of something unknown may be one of a function, by what it does with the result."""
    several = any(isinstance(value, ast.Tuple) for value in resolver.returns(function))
    match where.syntax.parents.get(call):
        case ast.Assign(targets=[ast.Tuple()]):
            return several
        case ast.Subscript():
            return True
    return not several
