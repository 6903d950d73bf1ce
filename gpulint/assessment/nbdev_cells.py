"""Cells of notebooks of nbdev that are not exported: tests and documentation of the library that the others make."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpulint import regex
from gpulint.documents.notebook import NotebookDocument
from gpulint.query import query

if TYPE_CHECKING:
    from pathlib import Path

    from gpulint.assessment.subject import Subject
    from gpulint.project import Project

_EXPORTS = regex.compile(r"^[ \t]*#[ \t]*\|?[ \t]*export(?:s|i|_?internal)?\b", re.MULTILINE)
_NAMES_MODULE = regex.compile(r"^[ \t]*#[ \t]*\|?[ \t]*default_exp\b", re.MULTILINE)
_SETTINGS = regex.compile(rb"^[ \t]*(?:nbs_path|lib_path|nbdev_\w+)[ \t]*=", re.MULTILINE)


def is_not_exported(subject: Subject) -> bool:
    """Return whether a place is in a cell that is not exported, of a notebook of which nbdev makes a module."""
    cell = subject.finding.span.cell
    if cell is None or subject.jobs or not _makes_module(subject.project, subject.path):
        return False
    document = subject.document
    return document is not None and not _EXPORTS.search(document.cell_source(cell).text)


@query
def _makes_module(project: Project, path: Path) -> bool:
    """Return whether nbdev makes a module of a notebook: it names the module, or exports cells as settings say."""
    document = project.document(path)
    if not isinstance(document, NotebookDocument):
        return False
    texts = [cell.source.text for cell in document.cells]
    if not any(map(_EXPORTS.search, texts)):
        return False
    return any(map(_NAMES_MODULE.search, texts)) or project.finds(project.root / "settings.ini", _SETTINGS)
