"""Comments beside a value that a fix would replace."""

from __future__ import annotations

import re

from gpulint.fix import Edit
from gpulint.project import Project
from gpulint.source import SourceText, Span

_MOST = 3
"""Most lines of a comment above a command that are read."""


def may_explain(project: Project, edit: Edit, about: str = "") -> bool:
    """Return whether a comment is behind a value that an edit replaces, other than one on the default, or right above
    it and speaks ``about`` the setting."""
    document, span = project.document(edit.path), edit.span
    if document is None or span.cell is not None:
        return False
    comment = document.source.line(span.line)[span.end_column - 1 :].partition("#")[2]
    if comment and "default" not in comment.lower():
        return True
    above = document.source.line(span.line - 1).lstrip() if about and span.line > 1 else ""
    return above.startswith("#") and about in above.lower()


def comment_beside(source: SourceText, span: Span, about: re.Pattern[str]) -> bool:
    """Return whether the comment behind a part of a shell command, or above the command, speaks ``about`` it."""
    line = span.line
    while line > 1 and source.line(line - 1).rstrip().endswith("\\"):
        line -= 1
    said = [source.line(span.end_line)[span.end_column - 1 :].partition(" #")[2]]
    for number in range(line - 1, max(line - 1 - _MOST, 0), -1):
        text = source.line(number).lstrip()
        if not text.startswith("#") or text.startswith(("#!", "#SBATCH", "#PBS", "#BSUB", "#$")):
            break
        said.append(text)
    return any(about.search(text) for text in said)
