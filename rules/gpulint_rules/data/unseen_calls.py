"""Calls of a training loop that may wait where analysis does not see it: then the waits that are counted are the fewest
that there are."""

from __future__ import annotations

import ast
import builtins
from collections import deque
from collections.abc import Iterator, Sequence

from gpulint.placement.sync_points import SyncKind, SyncPoint
from gpulint.placement.synchronization import SyncPoints
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.training.loop_contexts import LoopContext
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef

MAX_FUNCTIONS = 40
"""Most functions of the tree that are looked into for one loop."""
_BUILTINS = frozenset(dir(builtins))


def may_wait_elsewhere(project: Project, found: Sequence[tuple[SyncPoint, LoopContext]]) -> bool:
    """Return whether the rounds of a loop call functions of the tree that read other values, or objects of which
    nothing is known."""
    loop = found[0][1].loop
    counted = frozenset(sync.node for sync, _ in found)
    return any(waits not in counted for waits in _waits_in_calls(project, loop.module, loop.node))


@query
def _waits_in_calls(project: Project, module: ModuleIndex, loop: ast.AST) -> tuple[ast.AST, ...]:
    """The reads of the functions that a loop calls, also through others, and the calls of unknown objects."""
    found, seen, todo = list[ast.AST](), set[ast.AST]({loop}), deque([NodeRef(module, loop)])
    resolver = project.fact(Resolver)
    while todo:
        block = todo.popleft()
        if block.node is not loop:
            found += _reads(project, block.module).get(block.node, ())
        for call in _calls_in(block):
            callees = resolver.callees(block.module, call)
            if not callees and _is_unknown(project, block.module, call):
                found.append(call)
            for callee in callees:
                if isinstance(callee.node, FUNCTIONS) and callee.node not in seen and len(seen) < MAX_FUNCTIONS:
                    seen.add(callee.node)
                    todo.append(callee)
    return tuple(found)


def _calls_in(block: NodeRef) -> Iterator[ast.Call]:
    if isinstance(block.node, FUNCTIONS):
        yield from block.module.calls_of(block.node)
        return
    for call in block.module.calls_of(block.module.function(block.node)):
        if block.node in block.module.syntax.ancestors(call):
            yield call


@query
def _reads(project: Project, module: ModuleIndex) -> dict[ast.AST | None, list[ast.AST]]:
    """The places of a module that read or test values, by function."""
    table = dict[ast.AST | None, list[ast.AST]]()
    for sync in project.fact(SyncPoints).in_module(module):
        if sync.kind in (SyncKind.READ, SyncKind.TEST):
            table.setdefault(module.function(sync.node), []).append(sync.node)
    return table


def _is_unknown(project: Project, module: ModuleIndex, call: ast.Call) -> bool:
    """Return whether an object is called of which neither a library nor the tree tells what it does: ``criterion(x)``
    with a parameter; methods of such objects are taken for those of tensors, optimizers and bars."""
    if not isinstance(call.func, ast.Name) or call.func.id in _BUILTINS:
        return False
    resolver = project.fact(Resolver)
    if resolver.names(module, call.func):
        return False
    made = [(one.module, one.node) for one in resolver.points_to(module, call.func)]
    return not made or not all(isinstance(one, ast.Call) and resolver.call_names(where, one) for where, one in made)
