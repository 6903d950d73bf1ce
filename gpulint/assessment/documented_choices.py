"""Choices that commands of notes and scripts pass to a program: ``python train.py --dataset birds`` in a README."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpulint.assessment.shell_defaults import contents
from gpulint.query import query

if TYPE_CHECKING:
    from gpulint.project import Project


def is_documented(project: Project, choices: Iterable[object]) -> bool:
    """Return whether a command of a note or a script passes one of some texts as the value of an option."""
    return any(isinstance(choice, str) and choice != "" and _is_passed(project, choice) for choice in choices)


@query
def _is_passed(project: Project, choice: str) -> bool:
    value = re.escape(choice)
    passed = re.compile(
        rf"(?<![\w-])(?:--?[A-Za-z][\w.-]{{0,80}}[ =]|[A-Za-z_][\w.]{{0,80}}=)[\"']?{value}(?![\w.-])", re.IGNORECASE
    )
    return any(passed.search(text) for _, text in contents(project))
