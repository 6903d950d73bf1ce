"""The places of a loop at which it waits, also in functions that it calls."""

from __future__ import annotations

import ast

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import ModuleIndex, NodeRef, last_name
from gpulint_fixers.waits.step_tests import micro_batches


def sites_in(project: Project, module: ModuleIndex, found: HostWait, loop: ast.AST) -> list[ast.AST]:
    """The places of a loop that reach a wait: its statement, or the calls of the function that it is in.

    A function that several loops call is reported for one of them, and waits in all that surely call it.
    """
    if found.context.loop.node is loop or _is_part_of(module, found.context.loop, loop):
        sites = _sites(project, module, found)
    elif found.context.calls:
        sites = _sure_calls(project, module, found)
    else:
        return []
    return [site for site in sites if loop in module.syntax.ancestors(site)]


def _is_part_of(module: ModuleIndex, inner: NodeRef, loop: ast.AST) -> bool:
    """Return whether a loop goes through the micro-batches of each step of another one."""
    nested = inner.module is module and loop in module.syntax.ancestors(inner.node)
    return nested and micro_batches(module, inner.node)


def _sites(project: Project, module: ModuleIndex, found: HostWait) -> list[ast.AST]:
    """The statement, or the calls that reach what the first one on the way to it does."""
    if not found.context.calls:
        return [found.statement]
    where, first = found.context.calls[0].module, found.context.calls[0].node
    if not isinstance(first, ast.Call):
        return [first]
    resolver = project.fact(Resolver)
    reached = set(resolver.callees(where, first))
    same = module.calls_by_name.get(last_name(first.func), [])
    return [first, *(call for call in same if call is not first and reached & set(resolver.callees(module, call)))]


def _sure_calls(project: Project, module: ModuleIndex, found: HostWait) -> list[ast.AST]:
    """The calls in a module of a wait's function, and of no other one."""
    function, resolver = found.module.function(found.statement), project.fact(Resolver)
    if function is None or isinstance(function, ast.Lambda):
        return []
    last = found.context.calls[-1].node
    names = {function.name, last_name(last.func)} if isinstance(last, ast.Call) else {function.name}
    calls = (call for name in sorted(names) for call in module.calls_by_name.get(name, []))
    return [call for call in calls if [callee.node for callee in resolver.callees(module, call)] == [function]]


def called_modules(project: Project, module: ModuleIndex, loop: ast.AST) -> list[ModuleIndex]:
    """The module of a loop, and those of the functions that its body calls."""
    calls = (part for part in walk(loop) if isinstance(part, ast.Call))
    callees = (callee for call in calls for callee in project.fact(Resolver).callees(module, call))
    return [*dict.fromkeys([module, *(callee.module for callee in callees)])]
