"""Reads in functions that the training loop calls to log, to average a value over all processes or to meter it."""

from __future__ import annotations

import ast
from dataclasses import replace

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.fix import Declined, Fix, Safety
from gpulint.project import Project
from gpulint.workspace.module_index import LOOPS, LoopNode
from gpulint_fixers.waits.device_values import logged, reduced_less_often
from gpulint_fixers.waits.logs.log_intervals import interval
from gpulint_fixers.waits.logs.logging_runs import logs, run_of
from gpulint_fixers.waits.logs.named_meters import edits_of
from gpulint_fixers.waits.logs.reduced_logs import reduced_values
from gpulint_fixers.waits.logs.throttled_runs import throttled


def logged_by_call(project: Project, found: HostWait) -> Fix | Declined | None:
    """Return the fix where the loop calls a function that does nothing but log, or that averages what is only logged:
    it is called every N steps; None for all else."""
    loop, module = found.context.loop.node, found.context.loop.module
    if len(found.context.calls) != 1 or not isinstance(loop, LOOPS):
        return None
    call = found.context.calls[0]
    statement = next((up for up in module.syntax.ancestors(call.node) if isinstance(up, ast.stmt)), None)
    if call.module is not module or statement is None or loop not in module.syntax.ancestors(statement):
        return None
    if (reduced := reduced_values(module, statement)) is not None:
        return reduced_less_often(project, reduced)
    if (owner := found.module.class_of(found.statement)) is not None:
        edits = edits_of(project, found.module, owner)
        if not isinstance(edits, Declined) and edits:
            return Fix("let the meters hold tensors, and read them where they are shown", Safety.UNSAFE, edits)
    if not isinstance(statement, ast.Expr) or not logs(project, module, statement):
        return _logged_by_method(project, found, statement, loop)
    run = run_of(project, module, statement, set())
    return logged(project, replace(found, module=module, statement=statement), run, loop)


def _logged_by_method(project: Project, found: HostWait, site: ast.stmt, loop: LoopNode) -> Fix | Declined | None:
    """The fix where a method logs that the loop calls, of an object that counts the loop's steps itself."""
    module, statement = found.module, found.statement
    owner, function = module.class_of(statement), module.function(statement)
    if module is not found.context.loop.module or owner is None or owner is not module.class_of(loop):
        return None
    if not isinstance(statement, ast.stmt) or not logs(project, module, statement):
        return None
    if function is None or any(isinstance(up, LOOPS) for up in module.syntax.ancestors(statement)):
        return None
    when = interval(project, module, loop, site)
    if isinstance(when, Declined) or when.edits or not when.test.startswith("self."):
        return None
    document = project.document(module.path)
    assert document is not None
    edits = throttled(document, module, run_of(project, module, statement, set()), when)
    if isinstance(edits, Declined):
        return edits
    return Fix(f"log every {when.every} steps instead of every step", Safety.UNSAFE, edits)
