"""``gpulint scan --add-ignores``: suppression comments for all findings of a run."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpulint.cli.inputs import Inputs
    from gpulint.engine import Report
    from gpulint.finding import Finding


def add_ignores(args: argparse.Namespace, given: Inputs, report: Report) -> bool:
    """Write the comments, each file whole or not at all; False if nothing was, as git could not bring back the files.

    What cannot be written or hidden is said on standard error and left to the next scan to report.
    """
    from gpulint.cli.dirty import refused
    from gpulint.ignoring import with_ignores
    from gpulint.suppress import UNUSED_IGNORE
    from gpulint.texts import Refused
    from gpulint.writing import Change, WriteError, write

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
            print(f"gpulint: error: {os.path.relpath(path)}: {error}", file=sys.stderr)
            after, hard = before, []
        left += hard
        if after != before:
            changes[path] = Change(path, before, after)
    if not args.allow_dirty and refused(changes):
        return False
    written, hard_in = 0, Counter(finding.path for finding in left)
    for path, change in changes.items():
        try:
            write([change], given.project.root)
            written += len(by_path[path]) - hard_in[path]
        except WriteError as error:
            print(f"gpulint: error: {error}", file=sys.stderr)
    for finding in left:
        place = f"{os.path.relpath(finding.path)}:{finding.span.line}"
        print(f"{place}: no comment can stand here; per-file-ignores can hide {finding.rule.code}", file=sys.stderr)
    if not args.quiet:
        print(f"suppressed {written} of {sum(map(len, by_path.values()))} findings", file=sys.stderr)
    return True
