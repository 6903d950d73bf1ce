"""Scans of one tree after another in which some files have another content: what does not rest on these is kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulint import engine
from gpulint.workspace.revision import adopt

if TYPE_CHECKING:
    from gpulint.project import Project
    from gpulint.report import Report
    from gpulint.rule import Rule


class Rescans:
    """The project that scans run over, while others hold what its files were at some time.

    Answers of queries refer to objects of the tree that they were found for, so one tree goes on with other contents.
    """

    def __init__(self, project: Project) -> None:
        """``project`` is left alone: it goes on to be what it is now."""
        self._live = project.successor(())

    def run(self, project: Project, files: Sequence[Path], rules: Sequence[Rule], **options: Any) -> Report:
        """As :func:`gpulint.engine.run`, with what earlier scans have found that still holds."""
        live = self._holding_the_same_as(project)
        report = engine.run(live, files, rules, **options)
        adopt(project, live)
        return report

    def _holding_the_same_as(self, wanted: Project) -> Project:
        live = self._live
        if wanted.files != live.files:
            live = self._live = wanted.successor(())
            return live
        paths = wanted.provided.keys() | live.provided.keys()
        texts: dict[Path, bytes | None] = {
            path: data for path in sorted(paths) if (data := wanted.data(path)) != live.data(path)
        }
        if texts:
            live.revise(texts)
        return live
