"""Repairs of single waits, by what the statement does with the number."""

from __future__ import annotations

import ast

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.fix import Declined, Fix
from gpulint.placement.sync_points import SyncKind, is_index_read
from gpulint.project import Project
from gpulint.query import query
from gpulint.training.loop_roles import Role
from gpulint.workspace.module_index import LOOPS, LoopNode, ModuleIndex
from gpulint_fixers.edits.versions import predates_device_argument
from gpulint_fixers.waits.barriers import is_barrier
from gpulint_fixers.waits.device_reads import uses_other_library
from gpulint_fixers.waits.device_values import assigned, handed_over, logged, metered
from gpulint_fixers.waits.lists.device_lists import gathered, listed
from gpulint_fixers.waits.lists.device_tables import recorded
from gpulint_fixers.waits.lists.list_reads import extends
from gpulint_fixers.waits.lists.method_lists import kept_by_object
from gpulint_fixers.waits.lists.row_lists import gathered_rows
from gpulint_fixers.waits.lists.whole_reads import flat_read
from gpulint_fixers.waits.logs.abort_tests import test_less_often
from gpulint_fixers.waits.logs.lightning_values import handed_to_log
from gpulint_fixers.waits.logs.log_conditions import under_condition
from gpulint_fixers.waits.logs.logged_by_calls import logged_by_call
from gpulint_fixers.waits.logs.logging_runs import logs, outermost, run_of
from gpulint_fixers.waits.logs.records import keeps_rows
from gpulint_fixers.waits.needless_uploads import without_upload
from gpulint_fixers.waits.removed_waits import remove_wait
from gpulint_fixers.waits.returned_logs import returned_to_lightning
from gpulint_fixers.waits.returns.returned_numbers import returned_numbers
from gpulint_fixers.waits.returns.returned_reads import returned
from gpulint_fixers.waits.step_tests import (
    inner_loop,
    is_lightning_log,
    is_read_by_optimizer,
    summing_loop,
)
from gpulint_fixers.waits.sums.device_sums import accumulated, summed, variable_of
from gpulint_fixers.waits.sums.keyed_sums import keyed
from gpulint_fixers.waits.sums.object_sums import kept_in_object
from gpulint_fixers.waits.sums.running_extremes import extreme
from gpulint_fixers.waits.sums.summing_objects import added_by_object
from gpulint_fixers.waits.sums.tensor_sums import stored_in_tensor
from gpulint_fixers.waits.unread_values import unread_array, unread_meter, without_discarded

_MOST = 200
"""Statements of a loop's body, all of which are looked at for each finding."""


@query
def repair(project: Project, found: object) -> Fix | Declined:
    """The repair of one wait, whatever other waits of the loop do to its gain."""
    if not isinstance(found, HostWait) or found.context.role is Role.EVAL:
        return Declined("the tensor has to be copied as a whole before the loop over its elements")
    if any(map(is_index_read, found.syncs)):
        return Declined("the loop also uses the numbers for something other than indexing")
    if (left := without_upload(found)) is not None:
        return left
    statement = found.statement
    if not isinstance(statement, ast.stmt):
        return test_less_often(project, found)
    if is_read_by_optimizer(found.module, statement):
        return Declined("the optimizer reads the loss in each call of the function as well")
    if is_barrier(found):
        return remove_wait(found.module, statement, "do not wait for all queued work in every step")
    if (removed := without_discarded(found.module, statement)) is not None:
        return removed
    if is_lightning_log(found.module, statement):
        return handed_over(project, found)
    if (handed := returned_to_lightning(found) or handed_to_log(project, found)) is not None:
        return handed
    loop = found.context.loop.node
    if (less := logged_by_call(project, found)) is not None:
        return less
    if (computed := returned_numbers(project, found, statement) if found.context.calls else None) is not None:
        return computed
    if found.context.calls or not isinstance(loop, LOOPS) or loop not in found.module.syntax.ancestors(statement):
        inner = inner_loop(found.module, statement)
        adds = isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name)
        if inner is not None and adds and not predates_device_argument(found.module):
            assert isinstance(statement, ast.AugAssign)
            return accumulated(project, found, statement, summing_loop(found.module, statement, inner))
        if inner is not None and isinstance(statement, ast.Assign) and not predates_device_argument(found.module):
            added = summed(project, found, statement, inner)
            if isinstance(added, Fix):
                return added
        if inner is not None and isinstance(largest := extreme(project, found, statement, inner), Fix):
            return largest
        kept = kept_by_object(project, found, statement)
        return kept if isinstance(kept, Fix) else returned(project, found, statement)
    if len(loop.body) > _MOST:
        return Declined(f"the loop has more than {_MOST} statements")
    if any(sync.kind in (SyncKind.TEST, SyncKind.SELECT) for sync in found.syncs):
        return Declined("the value decides what the program does next")
    if predates_device_argument(found.module):
        return Declined("the code is for PyTorch before 0.4, whose variables are no numbers")
    if uses_other_library(found.module):
        return Declined("the module does not say whether this is a tensor of PyTorch")
    under = under_condition(project, found.module, statement, loop)
    return _by_use(project, found, statement, loop) if under is None else under


def _made_anew(
    project: Project, found: HostWait, statement: ast.Assign, loop: LoopNode, target: ast.expr, more: ast.expr
) -> Fix | Declined:
    """``losses = losses + [loss.item()]``, ``labels = labels + y.tolist()``"""
    assert isinstance(target, ast.Name)
    if isinstance(more, ast.List):
        return listed(project, found, statement, loop, target.id, more.elts[0])
    return gathered(project, found, statement, loop, target, more, rows=True)


def _set_anew(project: Project, found: HostWait, statement: ast.Assign, loop: LoopNode) -> Fix | Declined:
    """``losses = np.append(losses, loss.item())`` that nothing reads, and other assignments."""
    name = _variable_set(statement)
    removed = unread_array(project, variable_of(project, found, loop, name), statement) if name else None
    return assigned(project, found, statement, loop) if removed is None else removed


def _variable_set(statement: ast.Assign) -> str:
    """The variable that an assignment sets; empty if it sets others."""
    match statement.targets:
        case [ast.Name(id=name)]:
            return name
    return ""


def _by_use(project: Project, found: HostWait, statement: ast.stmt, loop: LoopNode) -> Fix | Declined:
    """Return the number kept on the GPU for a sum, a list, a meter or a table, or its log every N steps."""
    if (batches := gathered_rows(project, found, loop)) is not None:
        return batches
    match statement:
        case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=ast.List(elts=[value])):
            return listed(project, found, statement, loop, name, value)
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append", value=ast.Name() as target), args=[value])):
            if flat_read(value)[0] is not None:
                return gathered(project, found, statement, loop, target, value, rows=False)
            return listed(project, found, statement, loop, target.id, value)
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="extend", value=ast.Name() as target), args=[value])):
            return gathered(project, found, statement, loop, target, value, rows=True)
        case ast.AugAssign(
            target=ast.Name() as target, op=ast.Add(), value=ast.Call(func=ast.Attribute(attr="tolist"))
        ):
            return gathered(project, found, statement, loop, target, statement.value, rows=True)
        case ast.Assign(value=ast.BinOp(left=target, right=more) as value) if extends(value, _variable_set(statement)):
            return _made_anew(project, found, statement, loop, target, more)
        case ast.AugAssign(target=ast.Attribute() | ast.Subscript(value=ast.Attribute())):
            return kept_in_object(project, found)
        case ast.AugAssign(target=ast.Name(), op=ast.Add() | ast.Sub()):
            return accumulated(project, found, statement, loop)
        case ast.Expr(
            value=ast.Call(
                func=ast.Attribute(attr="append", value=ast.Subscript() | ast.Attribute() as entry), args=[_]
            )
        ):
            return recorded(project, found, statement, loop, entry)
        case ast.AugAssign(target=ast.Subscript(value=ast.Name(), slice=ast.Constant(value=str())), op=ast.Add()):
            return keyed(project, found, statement, loop)
        case ast.AugAssign(target=ast.Subscript(value=ast.Name()), op=ast.Add()):
            stored = stored_in_tensor(project, found, statement)
            return keyed(project, found, statement, loop) if isinstance(stored, Declined) else stored
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="update")) as call):
            made = metered(project, found, call, loop)
            added = added_by_object(project, found, call) if isinstance(made, Declined) and call.args else made
            if (removed := unread_meter(found.module, statement, added)) is not None:
                return removed
            return added if isinstance(added, Fix) else made
        case ast.Assign():
            return _set_anew(project, found, statement, loop)
        case ast.Expr(value=ast.Call(func=ast.Attribute(), args=[_, *_]) as call):
            made = added_by_object(project, found, call)
            if isinstance(made, Fix):
                return made
    if logs(project, found.module, statement) and not _writes_rows(found.module, statement, loop):
        outer = outermost(project, found.module, statement, loop)
        return logged(project, found, run_of(project, found.module, outer, set()), loop)
    return Declined("the value is used in the same step")


def _writes_rows(module: ModuleIndex, statement: ast.stmt, loop: LoopNode) -> bool:
    """Return whether a step writes a row to a file for each round of an inner loop."""
    inner = next((up for up in module.syntax.ancestors(statement) if isinstance(up, LOOPS)), loop)
    return inner is not loop and keeps_rows(module, statement, of_elements=True)
