"""The debuggers of one function, which go together: each of them stops the program."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from gpulint_rules.job.gpu102_interactive_debugging import Stop, check

from gpulint.edits import disjoint
from gpulint.finding import Finding
from gpulint.fix import Declined, Fix, Safety
from gpulint.project import Project
from gpulint.query import query
from gpulint.workspace.module_index import FunctionNode, ModuleIndex

MOST = 8
"""Most debuggers of a function that a fix takes out with the first: nobody leaves more."""


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
    """Return the other debuggers of the function around one, at most :data:`MOST`."""
    document, own = project.document(finding.path), finding.payload
    module = project.module(document) if document is not None else None
    if module is None or not isinstance(own, Stop) or own.statement is None:
        return []
    found = _by_function(project, module).get(module.function(own.statement), ())
    return [one for one in found[: MOST + 1] if one.payload != own][:MOST]


@query
def _by_function(project: Project, module: ModuleIndex) -> dict[FunctionNode | None, list[Finding]]:
    """The debuggers that are left in a module, by the function that they are in; None for those in none."""
    found = defaultdict[FunctionNode | None, list[Finding]](list)
    document = project.document(module.path)
    for one in check(document, project) if document is not None else ():
        if isinstance(one.payload, Stop) and one.payload.statement is not None:
            found[module.function(one.payload.statement)].append(one)
    return found
