"""The largest or smallest of what a loop reads, kept on the GPU: ``largest = max(largest, values.max().item())``."""

from __future__ import annotations

import ast

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.project import Project
from gpulint.workspace.module_index import LoopNode
from gpulint_fixers.waits.deferred_reads import defer
from gpulint_fixers.waits.device_reads import is_detached, reads_of
from gpulint_fixers.waits.element_types import is_integer
from gpulint_fixers.waits.sums.device_sums import is_number, variable_of

_BOUNDS = {"max": "min", "min": "max"}
"""The bound of ``clamp`` that gives the larger or the smaller of two."""


def extreme(project: Project, found: HostWait, statement: ast.stmt, loop: LoopNode) -> Fix | Declined | None:
    """Compare on the GPU, and read the result where it is used; None for other statements."""
    match statement:
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.Call(func=ast.Name(id="max" | "min" as function), args=[one, other], keywords=[]) as call,
        ):
            value = other if isinstance(one, ast.Name) and one.id == name else one
            if not any(isinstance(part, ast.Name) and part.id == name for part in (one, other)):
                return None
        case _:
            return None
    reads = reads_of(project, found)
    if isinstance(reads, Declined):
        return reads
    if len(reads) != 1 or reads[0].whole is not value or reads[0].copies or is_integer(found.module, reads[0].tensor):
        return Declined("the number is used for more than a comparison")
    variable = variable_of(project, found, loop, name)
    initial = variable.initial()
    if not initial or not all(value is call or _is_start(value) for value in initial):
        return Declined(f"`{name}` does not start as a number in this function")
    made = defer(project, variable, "float({})", own={statement})
    if isinstance(made, Declined):
        return made
    syntax, tensor = found.module.syntax, reads[0].tensor
    text = syntax.text(tensor)
    if "\n" in text or "#" in text:
        return Declined("the expression spans several lines")
    plain = text if isinstance(tensor, ast.Name | ast.Attribute | ast.Call | ast.Subscript) else f"({text})"
    detached = "" if is_detached(tensor) else ".detach()"
    edit = Edit(syntax.path, syntax.span(call), f"{plain}{detached}.clamp({_BOUNDS[function]}={name})")
    logs = "" if made.logs is None else f"; it is logged every {made.logs.every} steps"
    return Fix(
        f"compare on the GPU and read the result when it is used; it is NaN if one of the values is{logs}",
        Safety.UNSAFE,
        (edit, *made.edits),
    )


def _is_start(value: ast.expr) -> bool:
    """``0.0``, ``-1``, ``float("-inf")``, ``math.inf``"""
    match value:
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _is_start(operand)
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant()]):
            return True
        case ast.Attribute(value=ast.Name(id="math" | "np" | "numpy" | "torch"), attr="inf"):
            return True
    return is_number(value)
