"""What a training step does with a value that it keeps on the GPU: it adds it up, lists it, computes others of it."""

from __future__ import annotations

import ast
from dataclasses import replace

from gpulint.documents.python import walk
from gpulint.fix import Declined, Edit, Fix
from gpulint.project import Project
from gpulint.records import dataclass
from gpulint_fixers.waits.deferred_reads import Deferred, Variable, defer
from gpulint_fixers.waits.device_reads import DeviceRead
from gpulint_fixers.waits.kept_axes import keeps_axis
from gpulint_fixers.waits.lists.device_lists import kept
from gpulint_fixers.waits.logs.abort_tests import differs_from_itself, is_abort_test, less_often
from gpulint_fixers.waits.logs.averaging_meters import given_to_meter
from gpulint_fixers.waits.logs.named_meters import keeps_tensors
from gpulint_fixers.waits.logs.reduced_logs import Reduced, reduced_values
from gpulint_fixers.waits.sums.device_sums import added_up, exactness

_DEEPEST = 3
"""Values computed of values computed of a read."""


@dataclass(frozen=True, slots=True)
class Test:
    """A condition of every step that ends the program, and is looked at less often now."""

    edits: tuple[Edit, ...]
    reasons: tuple[str, ...]
    nodes: list[ast.Name]
    """The uses of the variable in it."""
    inside: list[ast.Name]
    """Those of its body."""


def tested(project: Project, variable: Variable, reads: list[ast.Name]) -> list[Test] | Declined:
    """``if not math.isfinite(value): raise ...``"""
    branches: dict[ast.If, list[ast.Name]] = {}
    for node in reads:
        for up in variable.module.syntax.ancestors(node):
            if up is variable.loop:
                break
            if isinstance(up, ast.If) and is_abort_test(up) and _names(up.test, variable.name):
                branches.setdefault(up, []).append(node)
    found = list[Test]()
    for branch, nodes in branches.items():
        made = less_often(project, variable.module, variable.loop, branch)
        if isinstance(made, Declined):
            return made
        asked = set(walk(branch.test))
        convert = [
            Edit(variable.module.path, variable.module.syntax.span(node), f"float({node.id})")
            for node in nodes
            if node in asked and not differs_from_itself(branch.test)  # which a tensor says as well
        ]
        inside = [node for node in nodes if node not in asked]
        found.append(Test((*made[0], *convert), (made[1],), nodes, inside))
    return found


def _names(node: ast.AST, name: str) -> bool:
    return any(isinstance(part, ast.Name) and part.id == name for part in walk(node))


def passed_on(project: Project, variable: Variable, statement: ast.stmt, names: list[ast.Name]) -> Deferred | Declined:
    """``total += value``, ``values.append(total / count)``, ``share = value / count``: what gets the value may be on
    the GPU as well."""
    used = Declined(f"`{variable.name}` is used in every step, and not only to log it")
    if len(names) != 1 or not isinstance(names[0].ctx, ast.Load) or len(variable.through) >= _DEEPEST:
        return used
    node, end = names[0], variable.module.syntax.offsets(names[0])[1]
    read = DeviceRead(node, node, end)
    made: Fix | Deferred | Declined = used
    match statement:
        case ast.AugAssign(target=ast.Name(id=total), op=ast.Add() | ast.Sub(), value=value):
            if (target := _next(variable, total)) is not None:
                made = added_up(project, target, value, [read], integers=variable.integers)
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append", value=ast.Name(id=values)), args=[value])):
            sums = variable.definition is None and value is node  # the next step changes it in place
            if (target := _next(variable, values)) is not None and not sums:
                made = kept(project, target, statement, value, [read], integers=variable.integers)
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="update", value=ast.Name() as meters), args=[]) as call):
            if any(keyword.value is node and keyword.arg for keyword in call.keywords):
                return _given_to_meters(project, variable, meters)
        case ast.Expr(
            value=ast.Call(
                func=ast.Attribute(attr="update", value=ast.Name(id=meter)), args=[_, *_], keywords=[]
            ) as call
        ):
            if (target := _next(variable, meter)) is not None:
                return _averaged(project, variable, target, call, node)
        case ast.Assign() if (reduced := reduced_values(variable.module, statement)) is not None:
            return _reduced(project, variable, node, reduced)
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            if (target := _next(variable, name)) is not None and (value is not node or variable.definition):
                made = _computed(project, replace(target, definition=statement), value, read)
    if isinstance(made, Fix):
        reason = f"what is computed of `{variable.name}` stays there, too"
        made = Deferred(made.edits, None, (reason, *_notes(made)))
    if isinstance(made, Declined):
        return made
    at = variable.module.syntax.span_at(end, end)
    return replace(made, edits=tuple(edit for edit in made.edits if edit.span != at))


def _given_to_meters(project: Project, variable: Variable, meters: ast.Name) -> Deferred | Declined:
    """``logger.update(loss=value)``"""
    edits = keeps_tensors(project, variable.module, variable.loop, meters)
    if isinstance(edits, Declined):
        return edits
    return Deferred(edits, None, (f"the meters of `{meters.id}` hold tensors",))


def _averaged(
    project: Project, variable: Variable, meter: Variable, call: ast.Call, node: ast.Name
) -> Deferred | Declined:
    """``losses.update(value, n)``"""
    parts = [] if variable.definition is None else walk(variable.definition.value)
    # A meter formats its numbers, which takes no tensor with an axis; a sum is changed in place by the next step.
    if variable.definition is None or any(
        isinstance(part, ast.expr) and keeps_axis(project, variable.module, part) for part in parts
    ):
        return Declined(f"`{variable.name}` is used in every step, and not only to log it")
    made = given_to_meter(project, meter, call, node)
    if isinstance(made, Declined):
        return made
    logs = () if made.logs is None else (f"it is logged every {made.logs.every} steps",)
    return Deferred(made.edits, None, (f"`{meter.name}` averages on the GPU", *logs))


def _reduced(project: Project, variable: Variable, node: ast.Name, reduced: Reduced) -> Deferred | Declined:
    """``reduced = all_reduce_mean(value)``"""
    edits = reduced.edits(project)
    if isinstance(edits, Declined):
        return edits
    convert = Edit(variable.module.path, variable.module.syntax.span(node), f"float({node.id})")
    return Deferred((*edits, convert), None, (f"it is logged every {reduced.when.every} steps",))


def _notes(fix: Fix) -> tuple[str, ...]:
    """Return what a fix changes, without what it does."""
    return tuple(part for part in fix.description.split("; ")[1:] if part != "the sum is the same")


def _next(variable: Variable, name: str) -> Variable | None:
    """The variable that gets the value; None if that is one of which it was computed."""
    through = variable.through | {variable.name}
    if name in through:
        return None
    return replace(variable, name=name, definition=None, integers=False, through=through)


def _computed(project: Project, variable: Variable, value: ast.expr, read: DeviceRead) -> Deferred | Declined:
    """``share = value / count``"""
    exact = exactness(project, variable.module, value, [read])
    if isinstance(exact, Declined):
        return Declined(f"`{read.tensor.id}` is used in every step, and not only to log it")  # type: ignore[attr-defined]
    assert variable.definition is not None
    made = defer(project, variable, "float({})", own={variable.definition})
    if isinstance(made, Declined):
        return made
    logs = (f"`{variable.name}` is logged every {made.logs.every} steps",) if made.logs is not None else ()
    reason = f"`{variable.name}` is computed on the GPU"
    return Deferred(made.edits, None, (reason, *exact.reasons, *logs, *made.reasons))
