"""Entries of a table that each step sets anew, so that the last ones alone are read: ``metrics["loss"] =
loss.item()``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.project import Project
from gpulint.workspace.module_index import LoopNode
from gpulint_fixers.waits.deferred_reads import defer
from gpulint_fixers.waits.device_reads import device_read, reads_of
from gpulint_fixers.waits.lists.device_lists import is_fresh
from gpulint_fixers.waits.lists.list_reads import loop_of_history
from gpulint_fixers.waits.sums.device_sums import is_number, variable_of

_NO = Declined("the value is stored in an object or a table in every step")


def overwritten(project: Project, found: HostWait, statement: ast.Assign, loop: LoopNode) -> Fix | Declined:
    """Keep the last values on the GPU, and read them after the loop."""
    reads, module = reads_of(project, found), found.module
    if (name := _table(statement)) is None or isinstance(reads, Declined) or statement.value is not reads[0].whole:
        return _NO
    variable = variable_of(project, found, loop, name)
    initial, nodes = variable.initial(), variable.occurrences()
    if not initial or not nodes or not all(map(_holds_numbers, initial)):
        return _NO
    variable = replace(variable, loop=loop_of_history(module, loop, initial))
    own = {variable.statement(node) for node in nodes if variable.is_inside(node)}
    if not all(isinstance(one, ast.Assign) and _table(one) == name and _is_read(found, one.value) for one in own):
        return Declined(f"`{name}` is read in the loop, or holds more than numbers")
    made = defer(
        project, variable, "{{key: float(value) for key, value in {}.items()}}", own=set[ast.stmt](own), in_place=False
    )
    if isinstance(made, Declined):
        return made
    if not made.edits:
        return Declined(f"`{name}` is never read in this function")
    return Fix(
        f"keep the last values of `{name}` on the GPU and read them after the loop, as floats",
        Safety.UNSAFE,
        (*_kept(found, loop, own), *made.edits),
    )


def _kept(found: HostWait, loop: LoopNode, own: set[ast.stmt]) -> Iterator[Edit]:
    """Tensors for all numbers that the entries get: a read that stays would still make each step wait."""
    for one in sorted(own, key=lambda statement: statement.lineno):
        read = device_read(found.module, one.value) if isinstance(one, ast.Assign) else None
        if read is not None:
            fresh = is_fresh(found.module, loop, read.tensor)
            yield read.replaced(found.module, ".detach()" if fresh else ".detach().clone()")


def _table(statement: ast.stmt) -> str | None:
    """The variable whose entry of a constant key an assignment sets."""
    match statement:
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str()))]):
            return name
    return None


def _holds_numbers(value: ast.expr) -> bool:
    """``{}``, ``{"loss": 0.0}``"""
    return isinstance(value, ast.Dict) and all(map(is_number, value.values))


def _is_read(found: HostWait, value: ast.expr) -> bool:
    """Return whether a value is a number, or the read of one tensor."""
    if is_number(value):
        return True
    read = device_read(found.module, value) if isinstance(value, ast.Call) else None
    return read is not None and read.whole is value
