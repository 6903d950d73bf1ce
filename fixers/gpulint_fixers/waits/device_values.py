"""Values of one step that go to a log, or to a meter that averages them."""

from __future__ import annotations

import ast
from dataclasses import replace

from gpulint_rules.data.exclusive_branches import exclude
from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.documents.python import walk
from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.placement.host_values import HostValues
from gpulint.placement.sync_points import SyncPoint
from gpulint.placement.synchronization import SyncPoints
from gpulint.project import Project
from gpulint.query import query
from gpulint.workspace.module_index import LoopNode, ModuleIndex
from gpulint_fixers.waits.device_reads import reads_of
from gpulint_fixers.waits.held_values import held
from gpulint_fixers.waits.host_casts import cast_on_gpu
from gpulint_fixers.waits.kept_axes import is_unreduced, keeps_axis
from gpulint_fixers.waits.last_values import last_value
from gpulint_fixers.waits.lists.named_batches import gathered_by_name
from gpulint_fixers.waits.lists.overwritten_entries import overwritten
from gpulint_fixers.waits.logs.averaging_meters import given_to_meter
from gpulint_fixers.waits.logs.later_logs import logged_below
from gpulint_fixers.waits.logs.log_intervals import EVERY, interval, periodic, raised
from gpulint_fixers.waits.logs.logging_runs import filled_run, log_run, names_stored
from gpulint_fixers.waits.logs.named_meters import keeps_tensors
from gpulint_fixers.waits.logs.progress_bars import shows_in_bar
from gpulint_fixers.waits.logs.reduced_logs import Reduced, reduced_values
from gpulint_fixers.waits.logs.throttled_runs import throttled
from gpulint_fixers.waits.logs.whole_runs import with_reads_above
from gpulint_fixers.waits.returned_logs import HANDS_OVER
from gpulint_fixers.waits.step_tests import is_lightning_log
from gpulint_fixers.waits.sums.device_sums import averaged, summed, variable_of
from gpulint_fixers.waits.sums.host_rounds import apart
from gpulint_fixers.waits.sums.keyed_sums import keyed
from gpulint_fixers.waits.sums.running_extremes import extreme
from gpulint_fixers.waits.unread_values import unread, unread_copy


def assigned(project: Project, found: HostWait, statement: ast.Assign, loop: LoopNode) -> Fix | Declined:
    """``value = loss.item()``: for the log alone, read and log every N steps; for a sum alone, add up on the GPU."""
    if (reduced := reduced_values(found.module, statement)) is not None:
        return reduced_less_often(project, reduced)
    if isinstance(target := statement.targets[0], ast.Name):
        if (cast := cast_on_gpu(project, found, target, loop)) is not None:
            return cast
        variable = variable_of(project, found, loop, target.id)
        if (without := unread_copy(project, variable, statement)) is not None:
            return without
        if isinstance(removed := unread(project, variable, statement), Fix):
            return removed
        if isinstance(largest := extreme(project, found, statement, loop), Fix):
            return largest
        if (last := last_value(project, found.module, statement, loop)) is not None:
            return last
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
    if (apart := logged_below(project, found.module, statement, loop)) is not None:
        return apart
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


def handed_over(project: Project, found: HostWait) -> Fix | Declined:
    """``self.log("loss", loss.item())``: let the framework have the tensor, which it reads when it writes its log, in
    all branches of the same test: an option chooses one, and its default is not what jobs pass."""
    edits = list[Edit]()
    for one in (found, *_in_other_branches(project, found)):
        reads = reads_of(project, one)
        if isinstance(reads, Declined):
            return reads
        edits += (read.replaced(found.module, ".detach()") for read in reads)
    return Fix(HANDS_OVER, Safety.UNSAFE, tuple(edits))


def _in_other_branches(project: Project, found: HostWait) -> list[HostWait]:
    """The logs of the same function that read numbers in branches which exclude that of a wait."""
    module, function = found.module, found.module.function(found.statement)
    on_host, logs = project.fact(HostValues), dict[ast.stmt, list[SyncPoint]]()
    for sync in project.fact(SyncPoints).in_module(module):
        statement = next((up for up in module.syntax.ancestors(sync.node) if isinstance(up, ast.stmt)), None)
        if statement is None or module.function(statement) is not function or not is_lightning_log(module, statement):
            continue
        of_host = sync.value is not None and on_host.holds(module, sync.value)
        if not of_host and exclude(module, found.statement, statement):
            logs.setdefault(statement, []).append(sync)
    return [replace(found, statement=statement, syncs=tuple(syncs)) for statement, syncs in logs.items()]


def logged(project: Project, found: HostWait, run: list[ast.stmt], loop: LoopNode) -> Fix | Declined:
    """Let the statements of a block that only log run every N steps, with those that read numbers for them alone."""
    return _logged(project, found.module, with_reads_above(project, found.module, tuple(run), loop), loop)


@query
def _logged(project: Project, module: ModuleIndex, run: tuple[ast.stmt, ...], loop: LoopNode) -> Fix | Declined:
    """The same, once for all waits of a run."""
    document = project.document(module.path)
    assert document is not None
    every = periodic(module, loop, run[0])
    if every is not None and (more := raised(project, module, every)) is not None:
        bar = ", in the progress bar as well" if any(map(shows_in_bar, run)) else ""
        return Fix(f"log every {EVERY} steps instead of every step{bar}", Safety.UNSAFE, more)
    when = interval(project, module, loop, run[0])
    if isinstance(when, Declined):
        return when
    if any(map(_counts_itself, run)):
        return Declined("the logger counts its own steps, which advance only when it is called")
    edits = throttled(document, module, [*run], when)
    if isinstance(edits, Declined):
        return edits
    bar = ", in the progress bar as well" if any(map(shows_in_bar, run)) else ""
    return Fix(f"log every {when.every} steps instead of every step{bar}", Safety.UNSAFE, edits)


def _counts_itself(statement: ast.stmt) -> bool:
    """``wandb.log(losses, step=wandb.run.step + len(batch))``, ``run.log(losses, step=run.step)``"""
    return any(
        isinstance(given := keyword.value, ast.expr)
        and keyword.arg in ("step", "global_step", "iteration")
        and any(
            isinstance(part, ast.Attribute) and part.attr in ("step", "_step") and _root(part) == _root(call.func)
            for part in walk(given)
        )
        for call in walk(statement)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
        for keyword in call.keywords
    )


def _root(node: ast.expr) -> str:
    """The first two names of ``self.run.step``, one of ``wandb.run.step``."""
    first, _, rest = ast.unparse(node).partition(".")
    return f"{first}.{rest.partition('.')[0]}" if first == "self" else first


def metered(project: Project, found: HostWait, call: ast.Call, loop: LoopNode) -> Fix | Declined:
    """``losses.update(loss.item(), n)``: let the meter keep tensors, and read them where they are used."""
    module = found.module
    assert isinstance(call.func, ast.Attribute)
    if not call.args and isinstance(call.func.value, ast.Name):
        return _metered_by_name(project, found, call, call.func.value, loop)
    if not isinstance(call.func.value, ast.Name):
        return Declined("what the object does with the number is unknown")
    reads = reads_of(project, found)
    if isinstance(reads, Declined):
        return reads
    if len(reads) != 1:
        return Declined("more is done with the number than averaging it")
    if (mixed := apart(project, module, reads)) is not None:
        return mixed
    made = given_to_meter(project, variable_of(project, found, loop, call.func.value.id), call, reads[0].whole)
    if isinstance(made, Declined):
        return made
    edits = (reads[0].replaced(module, _without_axes(project, module, reads[0].tensor)), *made.edits)
    logs = "" if made.logs is None else f"; it is logged every {made.logs.every} steps"
    return Fix(
        f"average on the GPU and read the average when it is used, in single precision{logs}",
        Safety.UNSAFE,
        tuple(dict.fromkeys(edits)),
    )


def _without_axes(project: Project, module: ModuleIndex, tensor: ast.expr) -> str:
    """Return what a meter keeps of a tensor: it formats its numbers, which takes no tensor with an axis."""
    flat = keeps_axis(project, module, tensor) or is_unreduced(project, module, tensor)
    return ".detach().squeeze()" if flat else ".detach()"


def _metered_by_name(
    project: Project, found: HostWait, call: ast.Call, meters: ast.Name, loop: LoopNode
) -> Fix | Declined:
    """``logger.update(loss=loss.item())``"""
    reads = reads_of(project, found)
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
        (
            *(read.replaced(found.module, _without_axes(project, found.module, read.tensor)) for read in reads),
            *edits,
        ),
    )
