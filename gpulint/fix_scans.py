"""Which findings the rounds of the fix engine look at: those that a scan at the same settings shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.report import Report, Result

if TYPE_CHECKING:
    from gpulint.finding import Finding
    from gpulint.project import Project

Key = tuple[str, Path, int | None, int, str]
"""Names a finding within one round: code, file, cell, character offset, message."""
NotAccepted = Callable[[Sequence[Result], "Project"], Sequence[Result]]
"""The results of a scan without those that a baseline accepts."""
Moved = Callable[[Key], Key]
"""The key of a finding after some fixes."""


class FixScans:
    """The scans of one run. What the first one hides stays hidden, even if fixes have changed its impact: a copy of a
    file is none any more once the other file is fixed."""

    def __init__(self, scan: Callable[[Project, Sequence[Path]], Report], not_accepted: NotAccepted | None) -> None:
        self._scan, self._not_accepted = scan, not_accepted
        self._hidden: Collection[Key] | None = None

    def first(self, project: Project) -> Report:
        """Scan before the first fix."""
        report = self._scan(project, ())
        kept = self._kept(report, project)
        self._hidden = {key for one, key in _keys(report.results, project) if id(one) not in kept}
        report.results = [one for one in report.results if id(one) in kept]
        return report

    def after(self, project: Project, new: Sequence[Path], moved: Moved, shown: Collection[Key]) -> Report:
        """Scan what fixes have made, with ``new`` files. What was ``shown`` before is shown again."""
        report = self._scan(project, new)
        kept, hidden = self._kept(report, project), self._moved(moved)
        report.results = [
            one
            for one, key in _keys(report.results, project)
            if key in shown or (id(one) in kept and key not in hidden)
        ]
        return report

    def accept(self, moved: Moved) -> None:
        """Go on from what fixes have made."""
        self._hidden = self._moved(moved)

    def _moved(self, moved: Moved) -> set[Key]:
        return {moved(key) for key in self._hidden or ()}

    def _kept(self, report: Report, project: Project) -> set[int]:
        results = report.results
        return {*map(id, results if self._not_accepted is None else self._not_accepted(results, project))}


def key_of(finding: Finding, project: Project) -> Key:
    """Return what names a finding in the files of a project."""
    span, document = finding.span, project.document(finding.path)
    offset = 0 if document is None else document.cell_source(span.cell).offset(span.line, span.column)
    return finding.rule.code, finding.path, span.cell, offset, finding.message


def unnumbered(key: Key) -> Key:
    """Return the key with the message's numbers left out, which a fix may have changed."""
    return *key[:-1], re.sub(r"\d[\d,.]*", "N", key[-1])


def is_in_line_of_fix(finding: Finding, project: Project, original: Project) -> bool:
    """Return whether the line of a finding is one that fixes wrote, as it is nowhere in the file as it was."""
    document, before = project.document(finding.path), original.document(finding.path)
    if document is None or before is None:
        return False
    cell, line = finding.span.cell, document.cell_source(finding.span.cell).line(finding.span.line)
    return line not in before.cell_source(cell).text.splitlines()


def _keys(results: Iterable[Result], project: Project) -> list[tuple[Result, Key]]:
    return [(one, unnumbered(key_of(one.finding, project))) for one in results]
