"""Whether each batch of a loop ends in a wait for the GPU, so that nothing is left to overlap."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial

from gpulint.documents.python import walk
from gpulint.placement.sync_points import SyncKind
from gpulint.placement.synchronization import SyncPoints
from gpulint.project import Project
from gpulint.query import query
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import FUNCTIONS, ModuleIndex, NodeRef

_SURE = frozenset({SyncKind.READ, SyncKind.TEST, SyncKind.BARRIER})


def waiting_line(project: Project, loop: NodeRef) -> int | None:
    """Return the line of a loop, or of a framework's hook, in which each batch makes the host wait; None if no line is
    known to. Waits in the functions that it calls count."""
    lines = _lines(project, loop.module, _repeated(loop))
    return min(lines) if lines else None


def _repeated(loop: NodeRef) -> ast.AST:
    """Return a loop, or the whole comprehension of one of its ``for ... in ...``."""
    whole = loop.module.syntax.parents.get(loop.node)
    return whole if isinstance(loop.node, ast.comprehension) and whole is not None else loop.node


@query
def _lines(project: Project, module: ModuleIndex, loop: ast.AST) -> frozenset[int]:
    other = partial(_waits_else, project, module)
    found = {sync.lineno for sync in _waits(project, module) if _is_in_each(module, sync, loop, other)}
    resolver = project.fact(Resolver)
    for call in (part for part in walk(loop) if isinstance(part, ast.Call)):
        if _is_in_each(module, call, loop, other) and any(
            _is_in_each(ref.module, sync, ref.node, partial(_waits_else, project, ref.module))
            for ref in resolver.callees(module, call)
            if isinstance(ref.node, FUNCTIONS)
            for sync in _waits(project, ref.module)
        ):
            found.add(call.lineno)
    return frozenset(found)


@query
def _waits(project: Project, module: ModuleIndex) -> tuple[ast.expr, ...]:
    """Return what certainly waits, in the whole module."""
    return tuple(sync.node for sync in project.fact(SyncPoints).in_module(module) if sync.kind in _SURE)


@query
def _waits_else(project: Project, module: ModuleIndex, test: ast.If, holds: bool) -> bool:
    """Return whether the branch of a condition that is not the given one certainly waits."""
    block = test.orelse if holds else test.body
    if not block:
        return False
    first, last = block[0].lineno, block[-1].end_lineno or 0
    inside = (
        sync for sync in _waits(project, module) if first <= sync.lineno <= last and _is_below(module, sync, block)
    )
    return any(_is_in_each(module, sync, test, partial(_waits_else, project, module)) for sync in inside)


def _is_below(module: ModuleIndex, node: ast.AST, block: list[ast.stmt]) -> bool:
    return any(up in block for up in module.syntax.ancestors(node) if isinstance(up, ast.stmt))


def _is_in_each(module: ModuleIndex, node: ast.AST, loop: ast.AST, other: Callable[[ast.If, bool], bool]) -> bool:
    """Return whether each pass through the body of a loop or function gets to a place, or to ``other`` waits where a
    condition decides."""
    inner = node
    for up in module.syntax.ancestors(node):
        if up is loop:
            return inner not in _outside(loop)
        if isinstance(up, (*FUNCTIONS, ast.Lambda, ast.ExceptHandler)) or (
            isinstance(up, ast.IfExp) and inner is not up.test
        ):
            return False
        if isinstance(up, ast.If) and inner is not up.test and not other(up, inner in up.body):
            return False
        inner = up
    return False


def _outside(loop: ast.AST) -> list[ast.AST]:
    """Return the parts of a loop that do not run in each round: of a comprehension what it goes through, and what its
    conditions choose."""
    match loop:
        case ast.For(iter=source, orelse=orelse) | ast.AsyncFor(iter=source, orelse=orelse):
            return [source, *orelse]
        case ast.ListComp(generators=[only, *others]) | ast.SetComp(generators=[only, *others]):
            return [*loop.generators, loop.elt] if others or only.ifs else [only]
        case ast.GeneratorExp(generators=[only, *others]):
            return [*loop.generators, loop.elt] if others or only.ifs else [only]
        case ast.DictComp(generators=[only, *others]):
            return [*loop.generators, loop.key, loop.value] if others or only.ifs else [only]
    return []
