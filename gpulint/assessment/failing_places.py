"""Places in code that raises an error whenever it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpulint.semantic.failing_results import unpacks_nothing
from gpulint.workspace.module_index import LOOPS

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject


def fails_there(subject: Subject) -> bool:
    """Return whether the function around a place, or its training loop, always raises an error, so that no job runs
    more than a step of it."""
    module, node = subject.module, subject.node
    if module is None or node is None or subject.is_notebook:
        return False
    function = module.function(node)
    if function is not None and unpacks_nothing(subject.project, module, function):
        return True
    loops = [context.loop for context in subject.contexts if isinstance(context.loop.node, LOOPS)]
    return bool(loops) and all(unpacks_nothing(subject.project, loop.module, loop.node) for loop in loops)
