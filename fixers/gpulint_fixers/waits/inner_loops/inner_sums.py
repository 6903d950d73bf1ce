"""Sums over a loop in each step: ``for name in losses: total += criterion(output[name]).item()``."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait
from gpulint_rules.data.needed_waits import other_waits

from gpulint.documents.python import walk
from gpulint.finding import Finding
from gpulint.fix import Declined, Fix
from gpulint.project import Project
from gpulint.workspace.module_index import ModuleIndex
from gpulint_fixers.edits.versions import predates_device_argument
from gpulint_fixers.waits.device_reads import reads_of, uses_other_library
from gpulint_fixers.waits.remaining_reads import copy_in_rounds
from gpulint_fixers.waits.step_tests import branches_around, inner_loop
from gpulint_fixers.waits.sums.device_sums import accumulated


def summed_inside(project: Project, found: HostWait) -> Fix | None:
    """Read the sum once per step, where the step reads it in any case, instead of each of its parts.

    What is read must be computed in the loop itself: reads of values that are there already wait once.
    """
    module, statement, step = found.module, found.statement, found.context.loop.node
    if not isinstance(statement, ast.AugAssign) or not isinstance(statement.target, ast.Name):
        return None
    inner = inner_loop(module, statement)
    if inner is None or inner is step or step not in module.syntax.ancestors(inner):
        return None
    reads = reads_of(project, found)
    if not isinstance(reads, list) or predates_device_argument(module) or uses_other_library(module):
        return None
    if any(isinstance(part, ast.Call) and _trains(part) for part in walk(inner)):
        return None
    if not all(_is_computed_in(module, read.tensor, inner) for read in reads):
        return None
    made = accumulated(project, found, statement, inner)
    return made if isinstance(made, Fix) else None


def rounds_wait(
    project: Project, found: HostWait, waits: Iterable[tuple[Finding, Fix | Declined, frozenset[ast.AST]]]
) -> bool:
    """Return whether the rounds of the inner loop wait elsewhere as well, which no fix changes."""
    here = branches_around(found.module, found.statement, found.context.loop.node)
    inner = inner_loop(found.module, found.statement)
    if inner is not None and copy_in_rounds(project, found, inner) is not None:
        return True
    return inner is not None and any(
        isinstance(other := finding.payload, HostWait)
        and not isinstance(fixed, Fix)
        and other.statement is not found.statement
        and around <= here
        and inner in other.module.syntax.ancestors(other.statement)
        and summed_inside(project, other) is None
        for finding, fixed, around in waits
    )


def stays_in_rounds(
    project: Project, found: HostWait, inner: ast.For, others: Iterable[tuple[Finding, Fix | Declined]]
) -> Declined | None:
    """Return why a sum on the GPU gains nothing: of the ``others`` in the loop, one makes each round wait, and no fix
    changes that."""
    here = branches_around(found.module, found.statement, inner)
    for finding, fixed in others:
        other = finding.payload
        if (
            isinstance(other, HostWait)
            and not isinstance(fixed, Fix)
            and branches_around(other.module, other.statement, inner) <= here
        ):
            return Declined(f"each round waits in {finding.span.words} as well, which no fix changes")
    stays = [call for call in other_waits(project, found.module, [inner]) if call not in walk(inner.iter)]
    stays = [call for call in stays if branches_around(found.module, call, inner) <= here]
    call = stays[0] if stays else copy_in_rounds(project, found, inner)
    if call is None:
        return None
    return Declined(f"each round waits in {found.module.syntax.span(call).words} as well, which no fix changes")


def _trains(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in ("backward", "step")


def _is_computed_in(module: ModuleIndex, tensor: ast.expr, inner: ast.For) -> bool:
    """Return whether a tensor is what a call in a loop gives, which has work for the GPU."""
    if not isinstance(tensor, ast.Name):
        return isinstance(tensor, ast.Call)
    bindings = module.scope(tensor).bindings.get(tensor.id, [])
    values = [one.value for one in bindings if inner in module.syntax.ancestors(one.node) and not one.path]
    return bool(values) and all(isinstance(value, ast.Call) for value in values)
