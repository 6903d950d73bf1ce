"""Waits in all branches of a condition, of which each step has one."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

from gpulint.finding import Finding
from gpulint.fix import Declined, Fix, Safety
from gpulint.placement.sync_points import SyncKind
from gpulint.placement.synchronization import SyncPoints
from gpulint.project import Project
from gpulint.query import query
from gpulint.training.guards import Guards
from gpulint.workspace.module_index import ModuleIndex
from gpulint_fixers.waits.step_tests import branches_around

Branches = frozenset[ast.AST]
"""The first statements of the branches around a place."""


def joined_branches(
    project: Project, module: ModuleIndex, loop: ast.AST, staying: Mapping[Branches, Finding], fixed: frozenset[ast.AST]
) -> Iterator[tuple[Branches, Finding]]:
    """Yield waits by the branches they are in, and those of all branches of a condition by what is around that. Of the
    branches, some may only evaluate: what is read there is no finding, unless it is ``fixed``."""
    known: dict[Branches, Finding | None] = dict(staying)
    for node, around in _reads(project, module, loop) if any(staying) else ():
        if node not in fixed:
            known.setdefault(around, None)
    todo = [*known]
    while todo:
        around = todo.pop()
        for first in sorted(around, key=lambda one: getattr(one, "lineno", 0)):
            others = _other_branches(module, first)
            outer = around - {first}
            sides = [outer | {other} for other in others]
            if not sides or outer in staying or any(side not in known for side in sides):
                continue
            found = next((one for side in (around, *sides) if (one := known[side]) is not None), None)
            if outer not in known or (known[outer] is None and found is not None):
                known[outer] = found
                todo.append(outer)
    yield from ((around, finding) for around, finding in known.items() if finding is not None)


def unsafe_in_branches(
    project: Project,
    module: ModuleIndex,
    loop: ast.AST,
    waits: Iterable[tuple[Finding, Fix | Declined, Branches]],
    here: Branches,
    fixed: frozenset[ast.AST],
) -> list[tuple[Finding, Fix | Declined]]:
    """Return the waits of the branches of a condition, one of which each step that gets ``here`` runs, that only unsafe
    fixes end: with the safe ones alone each step still waits."""
    unsafe = [one for one in waits if not isinstance(one[1], Fix) or one[1].safety is not Safety.SAFE]
    if not any(isinstance(made, Fix) and not around <= here for _, made, around in unsafe):
        return []
    open_ones = {around: finding for finding, _, around in unsafe}
    joined = joined_branches(project, module, loop, open_ones, fixed)
    outer = [around for around, _ in joined if around <= here and around not in open_ones]
    return [
        (finding, made)
        for finding, made, around in unsafe
        if isinstance(made, Fix)
        and not around <= here
        and any(whole < around and all(_other_branches(module, one) for one in around - whole) for whole in outer)
    ]


def _other_branches(module: ModuleIndex, first: ast.AST) -> list[ast.AST]:
    """Return the first statements of the other branches of a condition; none where it may run none of them."""
    branch = module.syntax.parents.get(first)
    match branch:
        case ast.If(body=body, orelse=[other, *_]):
            return [other if first is body[0] else body[0]]
        case ast.match_case() if isinstance(whole := module.syntax.parents.get(branch), ast.Match):
            if any(_takes_all(case) for case in whole.cases):
                return [case.body[0] for case in whole.cases if case is not branch]
    return []


def _takes_all(case: ast.match_case) -> bool:
    """``case _:``, ``case other:``"""
    return case.guard is None and isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None


@query
def _reads(project: Project, module: ModuleIndex, loop: ast.AST) -> tuple[tuple[ast.expr, Branches], ...]:
    """The reads in branches of a loop, whether they are findings or not."""
    guards, function = project.fact(Guards), module.function(loop)
    nodes = (
        sync.node
        for sync in project.fact(SyncPoints).in_module(module)
        if sync.kind is SyncKind.READ and module.function(sync.node) is function
    )
    found = list[tuple[ast.expr, Branches]]()
    for node in nodes:
        if loop not in module.syntax.ancestors(node) or not (around := branches_around(module, node, loop)):
            continue
        if not (
            guards.is_periodic(module, node)
            or guards.is_debugging(module, node)
            or guards.is_error_path(module, node)
            or guards.runs_once(module, node)
            or guards.is_before_loop_exit(module, node)
        ):
            found.append((node, around))
    return tuple(found)
