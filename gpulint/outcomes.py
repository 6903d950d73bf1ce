"""What became of the findings of a run of the fix engine."""

from __future__ import annotations

import dataclasses
import enum
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.fix import Fix
from gpulint.records import dataclass
from gpulint.report import Report, Result
from gpulint.writing import Change

if TYPE_CHECKING:
    from gpulint.project import Project


class State(enum.StrEnum):
    """What became of a finding."""

    APPLIED = "applied"
    UNSAFE = "unsafe"
    """There is an unsafe fix, and unsafe fixes were not allowed."""
    ADVICE = "advice"
    """There is text only."""
    DECLINED = "declined"
    """The fixer does not repair this place."""
    SKIPPED = "skipped"
    """There is a fix that was allowed, and the user said no to it."""
    UNFIXABLE = "unfixable"
    """There is no fixer."""
    DROPPED = "dropped"
    """There is a fix that was allowed, and it could not be done."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finding and what became of it. Its places count in the files as they were at the start of ``round``, from 1."""

    result: Result
    state: State
    round: int
    reason: str = ""
    """Why it was not repaired."""

    @property
    def paths(self) -> set[Path]:
        """Files that the fix changes or brings."""
        fix = self.result.fix
        if not isinstance(fix, Fix):
            return set()
        return {edit.path for edit in fix.edits} | {new.path for new in fix.files}


@dataclass
class Fixed:
    """The outcome of all rounds."""

    outcomes: list[Outcome]
    """All that was applied, in order, and then all that is left."""
    groups: list[list[Change]]
    """Changed files; those of one group share a fix, so that they are to be written together."""
    report: Report
    """The first scan, with the internal errors of later ones."""
    project: Project
    """The project after the fixes."""

    @property
    def changes(self) -> list[Change]:
        """All changed files by path."""
        return sorted((change for group in self.groups for change in group), key=lambda change: change.path)

    def of(self, state: State) -> list[Outcome]:
        """The outcomes of one state."""
        return [outcome for outcome in self.outcomes if outcome.state is state]

    def drop(self, group: list[Change], reason: str) -> None:
        """Take back a group that could not be written."""
        self.groups.remove(group)
        paths = {change.path for change in group}
        self.outcomes = [
            dataclasses.replace(outcome, state=State.DROPPED, reason=reason)
            if outcome.state is State.APPLIED and outcome.paths & paths
            else outcome
            for outcome in self.outcomes
        ]
