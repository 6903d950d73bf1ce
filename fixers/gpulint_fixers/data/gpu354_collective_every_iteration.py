"""Reduce what is only logged every N steps, and take barriers out of the loop."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from gpulint_rules.data.gpu354_collective_every_iteration import EveryStep

from gpulint.documents.python import walk
from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Fixer, Safety
from gpulint.project import Project
from gpulint.semantic.path_conditions import conditions
from gpulint.training.loop_roles import Role
from gpulint.workspace.module_index import FUNCTIONS, LOOPS, LoopNode, ModuleIndex, NodeRef
from gpulint_fixers.waits.logs.blocks import adjacent
from gpulint_fixers.waits.logs.log_intervals import interval
from gpulint_fixers.waits.logs.logging_runs import computed_runs
from gpulint_fixers.waits.logs.throttled_runs import throttled
from gpulint_fixers.waits.removed_waits import remove_wait


def fix(finding: Finding, project: Project) -> Fix | Declined:
    found = finding.payload
    if not isinstance(found, EveryStep):
        return Declined("whether the log is to show the loss of all processes in each step is your decision")
    if found.is_barrier:
        return _barrier(found)
    if found.roles != {Role.STEP}:
        return Declined("the sums of all batches have to be kept, and reduced once after the loop")
    wanted: dict[tuple[ModuleIndex, LoopNode], list[ast.stmt]] = {}
    for site in found.sites:
        statement, loop = _around(site)
        if statement is None or loop is None:
            return Declined("the loop calls a function that reduces among other things")
        tests = (test for test, _ in conditions(site.module, statement, loop))
        if any(isinstance(test, ast.Attribute) and test.attr == "sync_gradients" for test in tests):
            return Declined("the loop counts batches, and only some end with a step of the optimizer")
        runs = computed_runs(project, site.module, statement)
        if runs is None:
            return Declined("the value is used for more than the log; keep the sum and reduce it after the loop")
        own = wanted.setdefault((site.module, loop), [])
        own += [one for run in runs for one in run if one not in own]
    return _throttled(project, wanted)


def _barrier(found: EveryStep) -> Fix | Declined:
    statement, loop = _around(found.place)
    if statement is None or loop is None or not found.is_direct:
        return Declined("the loop calls a function that waits among other things")
    module = found.place.module.syntax
    span = module.span(statement)
    if module.source.line(span.line - 1).lstrip().startswith("#") and span.cell is None:
        return Declined("the comment above it may say what the processes wait for")
    return remove_wait(found.place.module, statement, "do not let the processes wait for each other in every step")


def _around(place: NodeRef) -> tuple[ast.stmt | None, LoopNode | None]:
    """The statement of a place, and the innermost loop of its function."""
    statement = None
    for up in place.module.syntax.ancestors(place.node):
        if isinstance(up, LOOPS):
            return statement, up
        if isinstance(up, FUNCTIONS):
            break
        if statement is None and isinstance(up, ast.stmt):
            statement = up
    return statement, None


def _throttled(project: Project, wanted: Mapping[tuple[ModuleIndex, LoopNode], list[ast.stmt]]) -> Fix | Declined:
    """Let statements of loops run every N steps."""
    edits, every = list[Edit](), ""
    for (module, loop), statements in wanted.items():
        document = project.document(module.path)
        assert document is not None
        when = interval(project, module, loop, min(statements, key=lambda one: one.lineno))
        if isinstance(when, Declined):
            return when
        for run in adjacent(module, statements):
            wrapped = throttled(document, module, run, when)
            if isinstance(wrapped, Declined):
                return wrapped
            edits += [edit for edit in wrapped if edit not in edits]
        every = when.every
    parts = (part for statements in wanted.values() for one in statements for part in walk(one))
    averaged = any(isinstance(part, ast.Attribute) and part.attr == "update" for part in parts)
    note = "; averages are then of these steps" if averaged else ""
    return Fix(f"reduce and log every {every} steps instead of every step{note}", Safety.UNSAFE, tuple(edits))


FIXER = Fixer("GPU354", fix)
