"""Numbers that an inner loop of a step reads from the GPU one by one: one copy brings all, with equal values."""

from __future__ import annotations

import ast
from typing import TypeGuard

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.documents.python import walk
from gpulint.fix import Declined, Fix
from gpulint.project import Project
from gpulint.workspace.module_index import COMPREHENSIONS, FUNCTIONS, LOOPS, ModuleIndex
from gpulint_fixers.edits.calls import WIDTH
from gpulint_fixers.edits.versions import predates_device_argument
from gpulint_fixers.waits.device_reads import reads_of, torch_of, uses_other_library
from gpulint_fixers.waits.inner_loops.copied_numbers import listed_number
from gpulint_fixers.waits.inner_loops.drawn_rows import drawn_together
from gpulint_fixers.waits.inner_loops.element_reads import elements
from gpulint_fixers.waits.inner_loops.generator_sums import summed_once
from gpulint_fixers.waits.inner_loops.hoisted_copies import copied_where_made
from gpulint_fixers.waits.inner_loops.host_copies import copied_first
from gpulint_fixers.waits.inner_loops.inner_lists import collected
from gpulint_fixers.waits.inner_loops.invariant_copies import copied_above
from gpulint_fixers.waits.inner_loops.list_indices import with_indices
from gpulint_fixers.waits.inner_loops.number_indices import with_numbers
from gpulint_fixers.waits.inner_loops.stacked_copies import stacked
from gpulint_fixers.waits.lists.row_lists import extended


def read_together(project: Project, found: HostWait) -> Fix | None:
    """The fix for reads in an inner loop; None for all others."""
    if uses_other_library(found.module) or predates_device_argument(found.module):
        return None
    made = (
        with_numbers(found)
        or drawn_together(project, found)
        or copied_above(found)
        or extended(found)
        or elements(project, found)
        or stacked(project, found)
        or _of_values(project, found)
    )
    if (made := made or summed_once(project, found)) is not None:
        return made
    copied = copied_first(project, found)
    return with_indices(project, found, copied) if copied is not None else copied_where_made(found)


def _of_values(project: Project, found: HostWait) -> Fix | None:
    """The fix for the values that a list collects."""
    module, statement = found.module, found.statement
    reads = reads_of(project, found)
    torch = torch_of(module)
    if isinstance(reads, Declined) and (number := listed_number(found)) is not None:
        reads = [number]
    if isinstance(reads, Declined) or torch is None or not reads or not isinstance(statement, ast.stmt):
        return None
    inner = _inner(found, reads[0].whole)
    return None if inner is None else collected(project, found, inner, reads, torch)


def _inner(found: HostWait, node: ast.expr) -> ast.For | ast.expr | None:
    """The innermost loop or comprehension around a read, if each step runs all of it."""
    for up in found.module.syntax.ancestors(node):
        if isinstance(up, (ast.For, *COMPREHENSIONS)):
            return None if up is found.context.loop.node else up
        if isinstance(up, (*FUNCTIONS, *LOOPS, ast.Lambda)):
            break
    return None


def fresh(module: ModuleIndex, node: ast.AST, names: tuple[str, ...]) -> str | None:
    """The first of some names that the function around a node does not use."""
    region = module.function(node) or module.syntax.tree
    used = {part.id if isinstance(part, ast.Name) else part.arg for part in walk(region) if _names(part)}
    return next((name for name in names if name not in used), None)


def _names(part: ast.AST) -> TypeGuard[ast.Name | ast.arg]:
    return isinstance(part, ast.Name | ast.arg)


def fits(module: ModuleIndex, statement: ast.stmt, line: str) -> bool:
    """Return whether a line that is indented like a statement is as narrow as the file's own."""
    return statement.col_offset + len(line) <= max(module.syntax.source.width, WIDTH)
