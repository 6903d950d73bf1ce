"""Fixes that a scan may offer: those whose text can be read again, and needs no newer library than the program has."""

from __future__ import annotations

from gpulint.edits import by_file
from gpulint.fix import Declined, Edit, Fix
from gpulint.programs.api_releases import unless_lacking
from gpulint.project import Project
from gpulint.rule import Kind
from gpulint.texts import Refused, edited


def offered(project: Project, fix: Fix | Declined) -> Fix | Declined:
    """Return a fix if it can be made in its program, else why not. The text is only written out where several blocks
    begin: that is where edits that are right one by one may not fit together."""
    fix = unless_lacking(project, fix)
    if isinstance(fix, Declined) or sum(map(_begins_block, fix.edits)) < 2:
        return fix
    for path, by_cell in by_file([fix]).items():
        document = project.document(path)
        if document is None or document.kind is not Kind.PYTHON:
            continue
        try:
            edited(document, project.data(path), by_cell)
        except Refused:
            return Declined("the changes that it needs do not fit together")
    return fix


def _begins_block(edit: Edit) -> bool:
    return edit.text.rstrip().endswith(":")
