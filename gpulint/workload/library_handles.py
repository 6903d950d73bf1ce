"""Functions of libraries that open what processes cannot share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpulint.project import Project


def handles(project: Project, kind: str) -> tuple[str, ...]:
    """Patterns of the functions that open files, or make clients, which forked processes cannot share."""
    return tuple(name for row in project.models.rows("handle") if row.kind == kind for name in row.calls)
