"""The repair of a wait by what its statement does with the number."""

from __future__ import annotations

import ast

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.fix import Declined, Fix
from gpulint.project import Project
from gpulint.workspace.module_index import LoopNode
from gpulint_fixers.waits.device_values import assigned, logged, metered
from gpulint_fixers.waits.lists.device_lists import gathered, listed, whole_read
from gpulint_fixers.waits.lists.device_tables import recorded
from gpulint_fixers.waits.logs.logging_runs import logs, outermost, run_of
from gpulint_fixers.waits.sums.device_sums import accumulated
from gpulint_fixers.waits.sums.keyed_sums import keyed
from gpulint_fixers.waits.sums.object_sums import kept_in_object
from gpulint_fixers.waits.sums.summing_objects import added_by_object
from gpulint_fixers.waits.sums.tensor_sums import stored_in_tensor


def by_use(project: Project, found: HostWait, statement: ast.stmt, loop: LoopNode) -> Fix | Declined:
    """Return the number kept on the GPU for a sum, a list, a meter or a table, or its log every N steps."""
    match statement:
        case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=ast.List(elts=[value])):
            return listed(project, found, statement, loop, name, value)
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append", value=ast.Name() as target), args=[value])):
            if whole_read(value) is not None:
                return gathered(project, found, statement, loop, target, value, rows=False)
            return listed(project, found, statement, loop, target.id, value)
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="extend", value=ast.Name() as target), args=[value])):
            return gathered(project, found, statement, loop, target, value, rows=True)
        case ast.AugAssign(
            target=ast.Name() as target, op=ast.Add(), value=ast.Call(func=ast.Attribute(attr="tolist"))
        ):
            return gathered(project, found, statement, loop, target, statement.value, rows=True)
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
            return added if isinstance(added, Fix) else made
        case ast.Assign():
            return assigned(project, found, statement, loop)
        case ast.Expr(value=ast.Call(func=ast.Attribute(), args=[_, *_]) as call):
            made = added_by_object(project, found, call)
            if isinstance(made, Fix):
                return made
    if logs(project, found.module, statement):
        outer = outermost(project, found.module, statement, loop)
        return logged(project, found, run_of(project, found.module, outer, set()), loop)
    return Declined("the value is used in the same step")
