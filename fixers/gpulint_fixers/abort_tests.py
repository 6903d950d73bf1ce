"""Tests of every step whether the loss is still a number, which end the program if it is not."""

from __future__ import annotations

import ast

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint.documents.python import walk
from gpulint.fix import Declined, Edit, Fix, Safety
from gpulint.project import Project
from gpulint.workspace.module_index import LOOPS, last_name
from gpulint_fixers.log_intervals import interval

_TESTS = frozenset({"isnan", "isinf", "isfinite"})
_DECIDES = Declined("the value decides what the program does next")


def test_less_often(project: Project, found: HostWait) -> Fix | Declined:
    """``if not torch.isfinite(loss): raise ...``: a loss that is no number stays so, and is found N steps later."""
    module, loop = found.module, found.context.loop.node
    branch = next((up for up in module.syntax.ancestors(found.statement) if isinstance(up, ast.stmt)), None)
    if found.context.calls or not isinstance(loop, LOOPS) or not isinstance(branch, ast.If) or branch.orelse:
        return _DECIDES
    if loop not in module.syntax.ancestors(branch) or not _ends_program(branch.body[-1]):
        return _DECIDES
    if any(isinstance(part, ast.NamedExpr | ast.BoolOp) for part in walk(branch.test)) or not any(
        isinstance(part, ast.Call) and last_name(part.func) in _TESTS for part in walk(branch.test)
    ):
        return _DECIDES
    when = interval(project, module, loop, branch)
    if isinstance(when, Declined):
        return when
    start = module.syntax.offsets(branch.test)[0]
    more = Edit(module.path, module.syntax.span_at(start, start), f"{when.test} and ")
    return Fix(
        f"look every {when.every} steps whether the loss is a number: one that is not mostly stays so",
        Safety.UNSAFE,
        (*when.edits, more),
    )


def _ends_program(statement: ast.stmt) -> bool:
    """``raise ...``, ``sys.exit(1)``"""
    match statement:
        case ast.Raise():
            return True
        case ast.Expr(value=ast.Call(func=func)):
            return last_name(func) in ("exit", "_exit", "quit")
    return False
