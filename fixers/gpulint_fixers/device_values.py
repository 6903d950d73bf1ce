"""Values of one step that go to a log, or to a meter that averages them."""

from __future__ import annotations

import ast

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.documents.python import walk
from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.project import Project
from gpulint.semantic.points_to import Resolver
from gpulint.workspace.module_index import LoopNode, ModuleIndex, last_name
from gpulint_fixers.deferred_reads import Variable
from gpulint_fixers.device_lists import gathered_by_name
from gpulint_fixers.device_reads import is_plain_number, reads_of
from gpulint_fixers.device_sums import averaged, summed, variable_of
from gpulint_fixers.held_values import held
from gpulint_fixers.kept_axes import keeps_axis
from gpulint_fixers.keyed_sums import keyed
from gpulint_fixers.log_intervals import EVERY, Interval, interval, logged_seldom, periodic, raised
from gpulint_fixers.logging_runs import filled_run, log_run, logs, names_stored, run_of
from gpulint_fixers.named_meters import keeps_tensors
from gpulint_fixers.overwritten_entries import overwritten
from gpulint_fixers.reduced_logs import Reduced, reduced_values
from gpulint_fixers.string_places import converted_in_string
from gpulint_fixers.throttled_runs import throttled
from gpulint_fixers.unread_values import unread_copy

_KEPT = frozenset({"avg", "val", "sum", "average", "value", "global_avg"})
"""Attributes of a meter that are what it was updated with, or made of it."""
_KNOWN = frozenset({"timm.utils.AverageMeter", "timm.utils.metrics.AverageMeter"})
"""Meters of libraries that add up and divide what they are given."""
_MANAGES = frozenset({"update", "reset", "count"})


def assigned(project: Project, found: HostWait, statement: ast.Assign, loop: LoopNode) -> Fix | Declined:
    """``value = loss.item()``: for the log alone, read and log every N steps; for a sum alone, add up on the GPU."""
    if (reduced := reduced_values(found.module, statement)) is not None:
        return reduced_less_often(project, reduced)
    if isinstance(target := statement.targets[0], ast.Name):
        if (unread := unread_copy(project, variable_of(project, found, loop, target.id), statement)) is not None:
            return unread
        if (listed := gathered_by_name(project, found, statement, loop)) is not None:
            return listed
    if "" in names_stored(statement):
        run = filled_run(project, found.module, statement, loop)
        if run is not None:
            return logged(project, found, run, loop)
        sums = keyed(project, found, statement, loop)
        return overwritten(project, found, statement, loop) if isinstance(sums, Declined) else sums
    run = log_run(project, found.module, statement)
    if run is not None:
        return logged(project, found, run, loop)
    average = averaged(project, found, statement, loop)
    if isinstance(average, Fix):
        return average
    total = summed(project, found, statement, loop)
    kept = held(project, found, statement, loop) if isinstance(total, Declined) else total
    if isinstance(kept, Declined) and (run := filled_run(project, found.module, statement, loop)) is not None:
        return logged(project, found, run, loop)
    return average if isinstance(kept, Declined) and average is not None else kept


def reduced_less_often(project: Project, reduced: Reduced) -> Fix | Declined:
    """``reduced = all_reduce_mean(loss.item())``"""
    edits = reduced.edits(project)
    if isinstance(edits, Declined):
        return edits
    every = reduced.when.every
    return Fix(f"average over all processes and log every {every} steps", Safety.UNSAFE, edits)


def handed_over(found: HostWait) -> Fix | Declined:
    """``self.log("loss", loss.item())``: let the framework have the tensor, which it reads when it writes its log."""
    reads = reads_of(found)
    if isinstance(reads, Declined):
        return reads
    edits = tuple(read.replaced(found.module, ".detach()") for read in reads)
    return Fix("hand Lightning the tensor, which it reads when it writes its log", Safety.UNSAFE, edits)


def logged(project: Project, found: HostWait, run: list[ast.stmt], loop: LoopNode) -> Fix | Declined:
    """Let the statements of a block that only log run every N steps."""
    document = project.document(found.module.path)
    assert document is not None
    every = periodic(found.module, loop, run[0])
    if every is not None and (more := raised(project, found.module, every)) is not None:
        return Fix(f"log every {EVERY} steps instead of every step", Safety.UNSAFE, more)
    when = interval(project, found.module, loop, run[0])
    if isinstance(when, Declined):
        return when
    edits = throttled(document, found.module, run, when)
    if isinstance(edits, Declined):
        return edits
    return Fix(f"log every {when.every} steps instead of every step", Safety.UNSAFE, edits)


def metered(project: Project, found: HostWait, call: ast.Call, loop: LoopNode) -> Fix | Declined:
    """``losses.update(loss.item(), n)``: let the meter keep tensors, and read them where they are used."""
    module = found.module
    assert isinstance(call.func, ast.Attribute)
    if not call.args and isinstance(call.func.value, ast.Name):
        return _metered_by_name(project, found, call, call.func.value, loop)
    if not isinstance(call.func.value, ast.Name) or not _is_meter(project, module, call.func.value):
        return Declined("what the object does with the number is unknown")
    reads = reads_of(found)
    if isinstance(reads, Declined):
        return reads
    if len(reads) != 1 or not _scaled(module, call.args[0], reads[0].whole):
        return Declined("more is done with the number than averaging it")
    variable = variable_of(project, found, loop, call.func.value.id)
    nodes = variable.occurrences()
    if nodes is None:
        return Declined(f"other functions use `{variable.name}` as well")
    # A meter formats its numbers, which takes no tensor with an axis.
    flat = ".squeeze()" if keeps_axis(project, module, reads[0].tensor) else ""
    edits, when = [reads[0].replaced(module, f".detach(){flat}")], None
    for node in nodes:
        made = _meter_use(project, variable, node) if isinstance(node.ctx, ast.Load) else ()
        if isinstance(made, Declined):
            return made
        if isinstance(made, Interval):
            run = run_of(project, module, variable.statement(node), set())
            wrapped = throttled(variable.document, module, run, made)
            if isinstance(wrapped, Declined):
                return wrapped
            read = _meter_read(variable, node)
            if isinstance(read, Declined):
                return read
            when, made = made, (*wrapped, *read)
        edits += made
    logs = "" if when is None else f"; it is logged every {when.every} steps"
    return Fix(
        f"average on the GPU and read the average when it is used, in single precision{logs}",
        Safety.UNSAFE,
        tuple(dict.fromkeys(edits)),
    )


def _metered_by_name(
    project: Project, found: HostWait, call: ast.Call, meters: ast.Name, loop: LoopNode
) -> Fix | Declined:
    """``logger.update(loss=loss.item())``"""
    reads = reads_of(found)
    if isinstance(reads, Declined):
        return reads
    given = {keyword.value for keyword in call.keywords if keyword.arg is not None}
    if not all(read.whole in given for read in reads):
        return Declined("more is done with the number than averaging it")
    edits = keeps_tensors(project, found.module, loop, meters)
    if isinstance(edits, Declined):
        return edits
    return Fix(
        f"let the meters of `{meters.id}` hold tensors, and read them where they are shown",
        Safety.UNSAFE,
        (*(read.replaced(found.module, ".detach()") for read in reads), *edits),
    )


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


def _is_meter(project: Project, module: ModuleIndex, node: ast.Name) -> bool:
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
