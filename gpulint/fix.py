"""Fixes: text edits with a safety, computed by fixers and applied by nobody but the fix engine."""

from __future__ import annotations

import enum
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.finding import Finding
from gpulint.records import dataclass
from gpulint.source import Span

if TYPE_CHECKING:
    from gpulint.project import Project


class Safety(enum.StrEnum):
    """What applying a fix may change."""

    SAFE = "safe"
    """Results unchanged, and it cannot crash the program: proved at that place."""
    UNSAFE = "unsafe"
    """Changes behaviour or needs a choice."""
    ADVICE = "advice"
    """Text only; there are no edits."""


TOGETHER = "it helps only together with"
"""What the description of a fix says that gains nothing without those of other places."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace ``span`` of ``path`` by ``text`` (an empty span inserts)."""

    path: Path
    span: Span
    text: str
    commutes: bool = False
    """Whether it inserts at the same place as such edits of other fixes, whatever the order."""


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file to write beside the user's own; the fix engine never overwrites one that exists."""

    path: Path
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """One repair. ``description`` says what it does and, when unsafe, what changes."""

    description: str
    safety: Safety
    edits: tuple[Edit, ...] = ()
    files: tuple[NewFile, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether it changes or writes files; one that does not is advice."""
        return bool(self.edits or self.files)


@dataclass(frozen=True, slots=True)
class Declined:
    """Why a fixer leaves a finding alone."""

    reason: str


def changes(fix: Fix | Declined | None) -> bool:
    """Return whether there is a fix that changes or writes files."""
    return isinstance(fix, Fix) and fix.changes


@dataclass(frozen=True, slots=True)
class Fixer:
    """Turns findings of one rule into fixes. ``fix`` must not write anything."""

    code: str
    fix: Callable[[Finding, Project], Fix | Declined]
