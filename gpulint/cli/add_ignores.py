"""``gpulint scan --add-ignores``: suppression comments for all findings of a run."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from gpulint.counting import counted
from gpulint.escaping import say, shown_path

if TYPE_CHECKING:
    from gpulint.cli.inputs import Inputs
    from gpulint.finding import Finding
    from gpulint.report import Report


def add_ignores(args: argparse.Namespace, given: Inputs, report: Report) -> bool:
    """Write the comments, each file whole or not at all; False if nothing was, as git could not bring back the files.

    What cannot be written or hidden is said on standard error and left to the next scan to report.
    """
    from gpulint.cli.dirty import refused
    from gpulint.ignoring import with_ignores
    from gpulint.suppress import UNUSED_IGNORE
    from gpulint.texts import Refused
    from gpulint.writing import Change, WriteError, remove_leftovers, write

    by_path: dict[Path, list[Finding]] = {}
    for finding in (result.finding for result in report.results):
        if finding.rule is not UNUSED_IGNORE:
            by_path.setdefault(finding.path, []).append(finding)
    changes: dict[Path, Change] = {}
    left: list[Finding] = []
    for path, findings in by_path.items():
        document = given.project.document(path)
        if document is None:
            continue
        before = given.project.data(path)
        try:
            after, hard = with_ignores(document, before, findings)
        except Refused as error:
            say(f"gpulint: error: {os.path.relpath(path)}: {error}")
            after, hard = before, []
        left += hard
        if after != before:
            changes[path] = Change(path, before, after)
    if refused(changes, dirty=args.allow_dirty, no_vcs=True):
        return False
    remove_leftovers((path.parent for path in given.project.files), given.project.root)
    written, hard_in = 0, Counter(finding.path for finding in left)
    for path, change in changes.items():
        try:
            write([change], given.project.root)
            written += len(by_path[path]) - hard_in[path]
        except WriteError as error:
            say(f"gpulint: error: {error}")
    for finding in left:
        place = f"{shown_path(finding.path)}:{finding.span.line}"
        say(f"{place}: a comment is not possible here; use per-file-ignores to hide {finding.rule.code}")
    if not args.quiet:
        say(f"Suppressed {written} of {counted(sum(map(len, by_path.values())), 'finding')}.")
    return True
