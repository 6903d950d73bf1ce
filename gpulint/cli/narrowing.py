"""Reporting only some findings: not those of the baseline, with ``--diff`` only those that changes introduced, and none
whose impact is too low. A baseline holds findings of every impact, so that it stays as it is when levels change."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint import baseline, disk
from gpulint.config import ConfigError
from gpulint.counting import counted
from gpulint.escaping import path_first, say, shown_path
from gpulint.finding import Severity
from gpulint.impact_causes import fold_causes
from gpulint.impact_effort import lower_by_hand
from gpulint.impact_filter import ImpactFilter
from gpulint.impact_repeats import fold_repeats

if TYPE_CHECKING:
    from gpulint.baseline import Baseline, Entry
    from gpulint.cli.inputs import Inputs
    from gpulint.fix_scans import NotAccepted
    from gpulint.project import Project
    from gpulint.report import Report, Result


def add_narrowing(parser: argparse.ArgumentParser) -> None:
    """Declare ``--diff``, ``--baseline`` and ``--no-baseline``."""
    group = parser.add_argument_group("new findings only")
    group.add_argument(
        "--diff",
        metavar="REV",
        help="report findings on lines changed since this git revision, or caused by those changes",
    )
    add_baseline_choice(group)


def add_baseline_choice(group: argparse._ArgumentGroup) -> None:
    """Declare ``--baseline`` and ``--no-baseline``."""
    which = group.add_mutually_exclusive_group()
    add_baseline(which)
    which.add_argument("--no-baseline", action="store_true", help="report all findings")


def add_baseline(group: argparse._ActionsContainer) -> None:
    """Declare ``--baseline``."""
    group.add_argument(
        "--baseline", type=Path, metavar="FILE", help=f"baseline file (default: {baseline.NAME} at the project's root)"
    )


class Narrowing:
    """What to leave out of a report, read before the run so that mistakes show at once."""

    def __init__(self, args: argparse.Namespace, inputs: Inputs) -> None:
        """Raises ConfigError: a baseline that is missing or broken, no git repository, an unknown revision."""
        self._quiet: bool = args.quiet
        self._jobs: int | None = args.jobs
        self._inputs = inputs
        self._known = 0
        self.stale: list[Entry] = []
        """Entries of the baseline whose finding is gone; known once the report was narrowed."""
        self._elsewhere = 0
        self.impact = ImpactFilter(inputs.project.config)
        self._baseline = None if args.no_baseline else load(args.baseline, inputs)
        self._diff = None
        if args.diff is not None:
            from gpulint.diff import Diff

            self._diff = Diff(inputs.project, args.diff)

    def apply(self, report: Report) -> None:
        """Take known findings, with ``--diff`` what is wrong with unchanged files, and low impact out of ``report``."""
        inputs = self._inputs
        if self._baseline is not None:
            split = self._baseline.split(report.results, inputs.project)
            report.results, self._known = split.new, len(split.known)
            self.stale = stale(split.unmatched, self._baseline, inputs, report)
        if self._diff is not None:
            everything = len(report.results)
            report.results = self._diff.new(
                report.results, inputs.rules, unused_ignores=inputs.unused_ignores, jobs=self._jobs
            )
            self._elsewhere = everything - len(report.results)
            report.problems = [
                problem
                if self._diff.changed(problem.path)
                else dataclasses.replace(problem, is_error=False, is_warning=False)
                for problem in report.problems
            ]
        report.results = self.impact.shown(_folded(report.results, inputs.project))

    @property
    def new_only(self) -> bool:
        """Whether findings that were there before are left out."""
        return self._baseline is not None or self._diff is not None

    def print_notes(self) -> None:
        """Say on standard error what was left out, and which entries of the baseline are no longer needed."""
        if self._quiet:
            return
        if self._known and self._baseline is not None:
            say(f"{counted(self._known, 'finding')} hidden by {os.path.relpath(self._baseline.path)}")
        if self._elsewhere:
            say(f"{counted(self._elsewhere, 'existing finding')} hidden (not introduced by these changes)")
        if self.stale and self._baseline is not None:
            these = "1 entry is" if len(self.stale) == 1 else f"{len(self.stale)} entries are"
            name = shown_path(self._baseline.path)
            say(f"{name}: {these} no longer found; 'gpulint baseline update' removes them:")
            for entry in self.stale:
                times = f" ({entry.count} times)" if entry.count > 1 else ""
                say(f"  {path_first(entry.path)}: {entry.code} {entry.message}{times}")


def load(explicit: Path | None, inputs: Inputs) -> Baseline | None:
    """The baseline to use, if there is one.

    Raises:
        ConfigError: the file that was named does not exist, or the baseline cannot be read.
    """
    from gpulint.discover import absolute

    if explicit is not None:
        if not disk.exists(explicit):
            raise ConfigError(f"{explicit}: no such baseline; 'gpulint baseline create' writes one")
        return baseline.read(absolute(explicit))
    path = baseline.find(inputs.project.root)
    return None if path is None else baseline.read(path)


def not_shown(args: argparse.Namespace, inputs: Inputs) -> tuple[NotAccepted, ImpactFilter]:
    """Return what leaves the findings of the chosen baseline, and those of low impact, out of results; and a filter
    that has counted what a scan of the tree hides once it was used: the places of one repair are one finding there,
    though each is fixed."""
    known = None if args.no_baseline else load(args.baseline, inputs)
    counts = ImpactFilter(inputs.project.config)
    rounds = itertools.count()

    def shown(results: Sequence[Result], project: Project) -> Sequence[Result]:
        new = results if known is None else known.split(results, project).new
        first = next(rounds) == 0
        folded = counts.shown(_folded(new, project)) if first else []
        kept = [result for result in new if counts.shows(result.finding)]
        if first:
            counts.folded = len(kept) - len(folded)
        return kept

    return shown, counts


def _folded(results: Sequence[Result], project: Project) -> list[Result]:
    """Results of which those that are copies, or places of one repair, have low impact."""
    return fold_causes(lower_by_hand(fold_repeats(results, project)), project)


def stale(unmatched: Collection[Entry], known: Baseline, inputs: Inputs, report: Report) -> list[Entry]:
    """Entries whose finding is gone: this run looked at their file, with their rule, down to their severity."""
    codes = {rule.code for rule in inputs.rules} | ({"GPU900"} if inputs.unused_ignores else set())
    broken = {problem.path for problem in report.problems if problem.is_error} | {error.path for error in report.errors}
    files = set(inputs.found.files)
    found = []
    for entry in unmatched:
        path = Path(os.path.normpath(known.path.parent / entry.path))
        looked = path in files or any(path.is_relative_to(folder) for folder in inputs.paths if disk.is_dir(folder))
        enough = Severity[entry.severity.upper()] >= inputs.project.config.severity
        if looked and enough and entry.code in codes and path not in broken:
            found.append(entry)
    return found
