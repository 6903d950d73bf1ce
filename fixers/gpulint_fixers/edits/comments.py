"""Comments beside a value that a fix would replace."""

from __future__ import annotations

from gpulint.fix import Edit
from gpulint.project import Project


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
