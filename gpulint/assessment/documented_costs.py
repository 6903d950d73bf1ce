"""What documentation and docstrings say of the cost of a construct that programs use on purpose."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpulint.programs.documented_constructs import is_documented, speaks_of
from gpulint.workspace.module_index import FUNCTIONS

if TYPE_CHECKING:
    from gpulint.assessment.subject import Subject


def names_cost(subject: Subject) -> bool:
    """Return whether a line of the documentation, or of a docstring around the place, speaks of what the finding is
    about and of its cost, or the reason for it (``DataParallel adds scatter/gather overhead on GPU0``)."""
    if subject.cost is None:
        return False
    kind = subject.cost.kind
    return any(speaks_of(text, kind) for text in _docstrings(subject)) or is_documented(subject.project, kind)


def _docstrings(subject: Subject) -> Iterator[str]:
    module, node = subject.module, subject.node
    if module is None or node is None:
        return
    for up in (*module.syntax.ancestors(node), module.syntax.tree):
        if isinstance(up, (*FUNCTIONS, ast.ClassDef, ast.Module)):
            yield ast.get_docstring(up) or ""
