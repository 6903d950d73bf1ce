"""Waits for all queued work, which go with the other waits of a step."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TypeGuard

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.finding import Finding
from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.placement.sync_points import SyncKind
from gpulint.workspace.module_index import ModuleIndex


def is_barrier(found: HostWait) -> bool:
    return all(sync.kind is SyncKind.BARRIER for sync in found.syncs)


def without_barriers(
    module: ModuleIndex,
    made: Fix,
    others: list[tuple[Finding, Fix | Declined, frozenset[ast.AST]]],
    here: frozenset[ast.AST],
) -> Fix:
    """The fix, and the removal of waits for all queued work in the same step: their findings may be of a lower impact,
    so that they are not shown, but each step waits as long as they are there."""
    edits = list[Edit]()
    for other, fixed, around in others:
        found = other.payload
        if isinstance(fixed, Fix) and isinstance(found, HostWait) and is_barrier(found):
            tests = [ast.unparse(up.test) for up in map(module.syntax.parents.get, around - here) if _is_if(up)]
            if all("cuda" in test for test in tests):
                edits += fixed.edits
    if not edits:
        return made
    more = "do not wait for all queued work in every step"
    edits = [*dict.fromkeys([*made.edits, *edits])]
    return replace(made, safety=Safety.UNSAFE, description=f"{made.description}; {more}", edits=tuple(edits))


def _is_if(node: ast.AST | None) -> TypeGuard[ast.If]:
    return isinstance(node, ast.If)
