"""Meters that average what they are given: ``losses.update(loss.item(), n)``."""

from __future__ import annotations

import ast

from gpulint.documents.python import walk
from gpulint.fix import Declined, Edit
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import ModuleIndex, last_name
from gpulint_fixers.edits.string_places import converted_in_string
from gpulint_fixers.waits.deferred_reads import Deferred, Variable
from gpulint_fixers.waits.device_reads import is_plain_number
from gpulint_fixers.waits.logs.log_intervals import Interval, interval, logged_seldom
from gpulint_fixers.waits.logs.logging_runs import logs, run_of
from gpulint_fixers.waits.logs.throttled_runs import throttled

_KEPT = frozenset({"avg", "val", "sum", "average", "value", "global_avg"})
"""Attributes of a meter that are what it was updated with, or made of it."""
_KNOWN = frozenset({"timm.utils.AverageMeter", "timm.utils.metrics.AverageMeter"})
"""Meters of libraries that add up and divide what they are given."""
_MANAGES = frozenset({"update", "reset", "count"})


def given_to_meter(project: Project, meter: Variable, call: ast.Call, whole: ast.expr) -> Deferred | Declined:
    """Let ``meter``, which ``call`` updates with ``whole`` or a multiple of it, hold tensors, and read them where they
    are used."""
    module = meter.module
    assert isinstance(call.func, ast.Attribute)
    if not _is_meter(project, module, call.func.value):
        return Declined("what the object does with the number is unknown")
    if not _scaled(module, call.args[0], whole):
        return Declined("more is done with the number than averaging it")
    nodes = meter.occurrences()
    if nodes is None:
        return Declined(f"other functions use `{meter.name}` as well")
    edits, when = list[Edit](), None
    for node in nodes:
        made = _meter_use(project, meter, node) if isinstance(node.ctx, ast.Load) else ()
        if isinstance(made, Declined):
            return made
        if isinstance(made, Interval):
            run = run_of(project, module, meter.statement(node), set())
            wrapped = throttled(meter.document, module, run, made)
            if isinstance(wrapped, Declined):
                return wrapped
            read = _meter_read(meter, node)
            if isinstance(read, Declined):
                return read
            when, made = made, (*wrapped, *read)
        edits += made
    return Deferred(tuple(dict.fromkeys(edits)), when)


def _meter_use(project: Project, variable: Variable, node: ast.Name) -> tuple[Edit, ...] | Interval | Declined:
    """Return what one use of a meter needs: nothing, a conversion in its place, or to be less frequent."""
    module = variable.module
    up, statement = module.syntax.parents.get(node), variable.statement(node)
    if isinstance(up, ast.Attribute) and up.attr in _MANAGES:
        return ()
    formats = _is_formatted(module, node)
    if not formats and not (isinstance(up, ast.Attribute) and up.attr in _KEPT):
        return Declined(f"`{variable.name}` is passed to other code")
    if variable.is_inside(node) and not logged_seldom(project, module, node):
        if not logs(project, module, statement):
            return Declined(f"`{variable.name}` is used in every step, and not only to log it")
        return interval(project, module, variable.loop, run_of(project, module, statement, set())[0])
    return _meter_read(variable, node)


def _meter_read(variable: Variable, node: ast.Name) -> tuple[Edit, ...] | Declined:
    """The conversion of a meter's average to a number, unless a format does that."""
    syntax, up = variable.module.syntax, variable.module.syntax.parents.get(node)
    if _is_formatted(variable.module, node) or not isinstance(up, ast.Attribute):
        return ()
    number = f"float({node.id}.{up.attr})"
    if any(isinstance(outer, ast.JoinedStr) for outer in syntax.ancestors(up)):
        edit = converted_in_string(variable.module, up, number)
        return (edit,) if edit is not None else Declined(f"`{variable.name}` is part of a string without a format")
    if syntax.text(up) != f"{node.id}.{up.attr}":
        return Declined(f"`{variable.name}` is part of a string without a format")
    return (Edit(syntax.path, syntax.span(up), number),)


def _is_formatted(module: ModuleIndex, node: ast.Name) -> bool:
    """Return whether a meter is shown by a format, which reads a tensor of one number by itself."""
    for up in module.syntax.ancestors(node):
        match up:
            case ast.Call(func=ast.Attribute(attr="format", value=ast.Constant(value=str(text)))):
                return ":" in text
            case ast.FormattedValue(format_spec=ast.JoinedStr()):
                return True
            case ast.Call(func=func) if "ProgressMeter" in last_name(func):
                return True
            case ast.stmt():
                return False
    return False


def _is_meter(project: Project, module: ModuleIndex, node: ast.expr) -> bool:
    """Return whether the variable is an object of a class whose ``update`` only adds up and divides."""
    refs = project.fact(Resolver).points_to(module, node)
    owners, known = [], False
    for ref in refs:
        if not isinstance(ref.node, ast.Call):
            return False
        if project.fact(Resolver).call_names(ref.module, ref.node) & _KNOWN:
            known = True
            continue
        owners += [
            made.node
            for made in project.fact(Resolver).points_to(ref.module, ref.node.func)
            if isinstance(made.node, ast.ClassDef)
        ]
    return (known or bool(owners)) and all(map(_averages, owners))


def _averages(owner: ast.ClassDef) -> bool:
    update = next((part for part in owner.body if isinstance(part, ast.FunctionDef) and part.name == "update"), None)
    if update is None or "Meter" not in owner.name:
        return False
    for statement in update.body:
        if not isinstance(statement, ast.Assign | ast.AugAssign) or any(
            isinstance(part, ast.Call | ast.Subscript | ast.Compare) for part in walk(statement)
        ):
            return False
    return True


def _scaled(module: ModuleIndex, value: ast.expr, whole: ast.expr) -> bool:
    """``loss.item()``, or a multiple of it."""
    if value is whole:
        return True
    match value:
        case ast.BinOp(op=ast.Mult(), left=left, right=right):
            other = right if left is whole else left
            known = is_plain_number(module, other) or isinstance(other, ast.Name | ast.Attribute)
            return whole in (left, right) and known
    return False
