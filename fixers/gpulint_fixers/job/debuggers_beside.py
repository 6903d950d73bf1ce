"""The debuggers of one function, which go together: each of them stops the program."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from gpulint_rules.job.gpu102_interactive_debugging import Stop, check

from gpulint.edits import disjoint
from gpulint.finding import Finding
from gpulint.fix import Declined, Fix, Safety
from gpulint.project import Project
from gpulint.query import query


def with_more(made: Fix, others: Iterable[Fix | Declined]) -> Fix:
    """Return a fix with those of other debuggers that are safe as well."""
    safe = [one for one in others if isinstance(one, Fix) and one.safety is Safety.SAFE]
    _, *more = disjoint([made, *(one for one in safe if one.edits != made.edits)])
    if not more:
        return made
    edits = dict.fromkeys(edit for one in (made, *more) for edit in one.edits)
    said = "another one" if len(more) == 1 else f"{len(more)} more"
    return replace(made, description=f"{made.description}, and {said} in the same function", edits=tuple(edits))


def beside(finding: Finding, project: Project) -> list[Finding]:
    """Return the other debuggers of the function around one."""
    document, own = project.document(finding.path), finding.payload
    module = project.module(document) if document is not None else None
    if module is None or not isinstance(own, Stop) or own.statement is None:
        return []
    home, found = module.function(own.statement), list[Finding]()
    for one in _stops(project, finding.path):
        stop = one.payload
        if isinstance(stop, Stop) and stop.statement not in (None, own.statement):
            assert stop.statement is not None
            found += [one] if module.function(stop.statement) is home else []
    return found


@query
def _stops(project: Project, path: Path) -> list[Finding]:
    """The debuggers that are left in a module."""
    document = project.document(path)
    return list(check(document, project)) if document is not None else []
