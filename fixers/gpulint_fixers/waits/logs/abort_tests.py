"""Tests of every step whether the loss is still a number, which end the program if it is not."""

from __future__ import annotations

import ast
import re

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.project import Project
from gpulint.workspace.module_index import LOOPS, LoopNode, ModuleIndex, last_name
from gpulint_fixers.waits.logs.log_intervals import interval
from gpulint_fixers.waits.logs.logging_runs import is_logging

_TESTS = frozenset({"isnan", "isinf", "isfinite"})
_SAVES = regex.compile(r"save|dump|store|write_|export|state_dict|checkpoint|snapshot|deepcopy", re.IGNORECASE)
_DECIDES = Declined("the value decides what the program does next")


def test_less_often(project: Project, found: HostWait) -> Fix | Declined:
    """``if not torch.isfinite(loss): raise ...``: a loss that is no number stays so, and is found N steps later."""
    module, loop = found.module, found.context.loop.node
    branch = next((up for up in module.syntax.ancestors(found.statement) if isinstance(up, ast.stmt)), None)
    if found.context.calls or not isinstance(loop, LOOPS) or not isinstance(branch, ast.If):
        return _DECIDES
    if loop not in module.syntax.ancestors(branch) or not (is_abort_test(branch) or _only_logs(branch)):
        return _DECIDES
    made = less_often(project, module, loop, branch)
    return made if isinstance(made, Declined) else Fix(made[1], Safety.UNSAFE, made[0])


def _only_logs(branch: ast.If) -> bool:
    """``if norm > 1.0: print("large gradients")``"""
    match branch:
        case ast.If(test=ast.Compare(left=ast.Name(), ops=[_], comparators=[limit]), orelse=[]):
            plain = not any(isinstance(part, ast.Call | ast.NamedExpr) for part in walk(limit))
            return plain and all(map(is_logging, branch.body))
    return False


def is_abort_test(branch: ast.If) -> bool:
    """Return whether a condition only asks whether a value is a number, and ends the program if it is not."""
    if branch.orelse or not _ends_program(branch.body[-1]) or any(map(_keeps, branch.body)):
        return False
    if any(isinstance(part, ast.NamedExpr | ast.BoolOp) for part in walk(branch.test)):
        return False
    asks = (part for part in walk(branch.test) if isinstance(part, ast.Call) and last_name(part.func) in _TESTS)
    return differs_from_itself(branch.test) or any(asks)


def differs_from_itself(test: ast.expr) -> bool:
    """``loss != loss``, which holds for what is no number."""
    match test:
        case ast.Compare(left=ast.Name(id=one), ops=[ast.NotEq()], comparators=[ast.Name(id=other)]):
            return one == other
    return False


def less_often(
    project: Project, module: ModuleIndex, loop: LoopNode, branch: ast.If
) -> tuple[tuple[Edit, ...], str] | Declined:
    """The edits after which a condition of a loop is looked at every N steps, and what they change."""
    when = interval(project, module, loop, branch)
    if isinstance(when, Declined):
        return when
    start = module.syntax.offsets(branch.test)[0]
    more = Edit(module.path, module.syntax.span_at(start, start), f"{when.test} and ")
    told = f"look every {when.every} steps whether the loss is a number: one that is not mostly stays so"
    if not is_abort_test(branch):
        told = f"look every {when.every} steps whether to log, not in every step"
    return (*when.edits, more), told


def _keeps(statement: ast.stmt) -> bool:
    """Return whether a statement keeps what led to the bad loss, which further steps would overwrite."""
    return any(isinstance(part, ast.Call) and _SAVES.search(last_name(part.func)) for part in walk(statement))


def _ends_program(statement: ast.stmt) -> bool:
    """``raise ...``, ``sys.exit(1)``"""
    match statement:
        case ast.Raise():
            return True
        case ast.Expr(value=ast.Call(func=func)):
            return last_name(func) in ("exit", "_exit", "quit")
    return False
