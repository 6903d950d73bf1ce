"""The places of a loop at which it waits, also in functions that it calls."""

from __future__ import annotations

import ast

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.documents.python import walk
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import ModuleIndex, NodeRef, last_name
from gpulint_fixers.step_tests import micro_batches


def sites_in(project: Project, module: ModuleIndex, found: HostWait, loop: ast.AST) -> list[ast.AST]:
    """The places of a loop that reach a wait: its statement, or the calls of the function that it is in.

    A function that several loops call is reported for one of them, and waits in all.
    """
    own = found.context.loop.node is loop or _is_part_of(module, found.context.loop, loop)
    if not own and not found.context.calls:
        return []
    return [site for site in _sites(project, module, found) if loop in module.syntax.ancestors(site)]


def _is_part_of(module: ModuleIndex, inner: NodeRef, loop: ast.AST) -> bool:
    """Return whether a loop goes through the micro-batches of each step of another one."""
    nested = inner.module is module and loop in module.syntax.ancestors(inner.node)
    return nested and micro_batches(module, inner.node)


def _sites(project: Project, module: ModuleIndex, found: HostWait) -> list[ast.AST]:
    """The statement, or the calls in a module of one of the functions on the way to it."""
    way, resolver = found.context.calls, project.fact(Resolver)
    calls = [(link.module, link.node) for link in way if isinstance(link.node, ast.Call)]
    reached = {callee for where, call in calls for callee in resolver.callees(where, call)}
    names = dict.fromkeys(last_name(call.func) for _, call in calls)
    same = (call for name in names for call in module.calls_by_name.get(name, []))
    first = way[0].node if way else found.statement
    others = [call for call in same if call is not first and reached & set(resolver.callees(module, call))]
    return [first, *others]


def called_modules(project: Project, module: ModuleIndex, loop: ast.AST) -> list[ModuleIndex]:
    """The module of a loop, and those of the functions that its body calls."""
    calls = (part for part in walk(loop) if isinstance(part, ast.Call))
    callees = (callee for call in calls for callee in project.fact(Resolver).callees(module, call))
    return [*dict.fromkeys([module, *(callee.module for callee in callees)])]
