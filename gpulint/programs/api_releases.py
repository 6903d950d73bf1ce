"""Whether the libraries that a program is installed with have what a fix would write."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.fix import Declined, Fix
from gpulint.programs.package_lists import is_too_old, may_be_too_old

if TYPE_CHECKING:
    from gpulint.libraries.releases import NewApi
    from gpulint.project import Project


def lacks(project: Project, path: Path, written: str) -> str | None:
    """Return why a program may not write something: a bound on a library's release that is too old for it."""
    for row in project.models.rows("new-api"):
        for name in row.written:
            if name in written and (reason := _reason(project, path, row, name)):
                return reason
    return None


def may_lack(project: Project, path: Path, written: str) -> bool:
    """Return whether a program's lists of packages allow a release that lacks something (``torch>=1.0``)."""
    return lacks(project, path, written) is not None or any(
        may_be_too_old(project, path, row.packages, row.release)
        for row in project.models.rows("new-api")
        if any(name in written for name in row.written)
    )


def unless_lacking(project: Project, fix: Fix | Declined) -> Fix | Declined:
    """A fix, unless the program's libraries are too old for what it writes and the file does not have yet."""
    reason = _lacking(project, fix) if isinstance(fix, Fix) else None
    return Declined(reason) if reason else fix


def _lacking(project: Project, fix: Fix) -> str | None:
    for path, text in _texts(fix):
        old = project.data(path) if path in project.files else b""
        for row in project.models.rows("new-api"):
            for name in row.written:
                if name in text and name.encode() not in old and (reason := _reason(project, path, row, name)):
                    return reason
    return None


def _texts(fix: Fix) -> Iterator[tuple[Path, str]]:
    for edit in fix.edits:
        if edit.text and not edit.text.isspace():  # most edits of large fixes only indent
            yield edit.path, edit.text
    for new in fix.files:
        yield new.path, new.text


def _reason(project: Project, path: Path, row: NewApi, name: str) -> str | None:
    bound = is_too_old(project, path, row.packages, row.release)
    return (
        f"`{name}` needs {row.packages[0]} {row.since}, and the program is installed with `{bound}`" if bound else None
    )
