"""Values that a step computes for a log which it writes further down, below statements of another purpose."""

from __future__ import annotations

import ast

from gpulint.fix import Edit, Fix, Safety
from gpulint.project import Project
from gpulint.query import query
from gpulint.training.guards import Guards
from gpulint.workspace.module_index import LoopNode, ModuleIndex
from gpulint_fixers.waits.logs.log_intervals import Interval, interval, periodic
from gpulint_fixers.waits.logs.logging_runs import computed_runs
from gpulint_fixers.waits.logs.progress_bars import shows_in_bar
from gpulint_fixers.waits.logs.step_counters import stores
from gpulint_fixers.waits.logs.throttled_runs import throttled


@query
def logged_below(project: Project, module: ModuleIndex, statement: ast.stmt, loop: LoopNode) -> Fix | None:
    """Return the fix that computes values and logs them every N steps, under the same condition in both places; None
    where something else needs them, or the condition may change between."""
    runs = computed_runs(project, module, statement)
    if runs is None or len(runs) < 2 or any(periodic(module, loop, run[0]) is not None for run in runs):
        return None
    if any(project.fact(Guards).is_before_loop_exit(module, run[0]) for run in runs):
        return None
    when = interval(project, module, loop, statement)
    document = project.document(module.path)
    if not isinstance(when, Interval) or document is None or _changes(module, loop, when, runs):
        return None
    edits = list[Edit]()
    for run in runs:
        made = throttled(document, module, run, when)
        if not isinstance(made, tuple) or not all(_has_condition(edit, when) for edit in made if "%" in edit.text):
            return None
        edits += made
    bar = ", in the progress bar as well" if any(shows_in_bar(one) for run in runs for one in run) else ""
    told = f"log every {when.every} steps instead of every step{bar}"
    return Fix(told, Safety.UNSAFE, tuple(dict.fromkeys(edits)))


def _changes(module: ModuleIndex, loop: LoopNode, when: Interval, runs: list[list[ast.stmt]]) -> bool:
    """Return whether the loop sets what the condition reads between the first and the last of the places, which the
    others might then not agree with."""
    named = {ast.unparse(part) for part in ast.walk(ast.parse(when.test)) if isinstance(part, ast.Name | ast.Attribute)}
    first, last = runs[0][0].lineno, runs[-1][0].lineno
    return any(first <= node.lineno <= last and ast.unparse(node) in named for node in stores(loop))


def _has_condition(edit: Edit, when: Interval) -> bool:
    """Return whether a place runs in the same steps as the others, and not in the last one besides."""
    return " or " not in edit.text or " or " in when.test or edit in when.edits
