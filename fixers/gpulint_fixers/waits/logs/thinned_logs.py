"""What a fix says of the logs that it lets a loop write every N steps only."""

from __future__ import annotations

import ast
from dataclasses import replace

from gpulint_rules.data.gpu305_host_sync_in_loop import HostWait

from gpulint import regex
from gpulint.documents.python import walk
from gpulint.fix import Edit, Fix
from gpulint.workspace.module_index import LOOPS, ModuleIndex
from gpulint_fixers.waits.logs.logging_runs import is_logging
from gpulint_fixers.waits.logs.progress_bars import shows_in_bar
from gpulint_fixers.waits.remaining_reads import gets_seldom

_INTERVAL = regex.compile(r"(?:if|and) [^%\n]{1,80} % (?:\(([^()\n]{1,80})\)|([\w.]{1,80})) == \w{1,80}")
_COUNTING = frozenset({"wandb.log", "wandb.run.log", "swanlab.log", "trackio.log"})
"""Logs that number their calls where these give no step."""


def told_of_logs(found: HostWait, made: Fix) -> Fix:
    """Return the fix of a wait, whose description says that logs are written less often, and what else that changes."""
    loop, module = found.context.loop.node, found.context.loop.module
    own = [edit for edit in made.edits if edit.path == module.path]
    every = next((one for edit in own if (one := _INTERVAL.search(edit.text)) is not None), None)
    if every is None or not isinstance(loop, LOOPS):
        return made
    thinned = [part for part in walk(loop) if isinstance(part, ast.stmt) and _is_thinned(module, part, own)]
    told = made.description
    if thinned and " every " not in told:
        bar = ", in the progress bar as well" if any(map(shows_in_bar, thinned)) else ""
        told += f"; the loop logs every {every[1] or every[2]} steps instead of every step{bar}"
    if (name := next(filter(None, map(_counting, thinned)), "")) and name not in told:
        told += f"; `{name}` is given no step and counts its calls, so that its steps advance less often"
    return made if told == made.description else replace(made, description=told)


def _is_thinned(module: ModuleIndex, statement: ast.stmt, edits: list[Edit]) -> bool:
    return (is_logging(statement) or bool(_counting(statement))) and gets_seldom(module, statement, edits)


def _counting(statement: ast.stmt) -> str:
    """The name of a log that is called without a step."""
    match statement:
        case ast.Expr(value=ast.Call(func=func, args=[_], keywords=keywords)):
            name = ast.unparse(func)
            return name if name in _COUNTING and all(one.arg not in ("step", None) for one in keywords) else ""
    return ""
