"""Precision and recall of gpulint on code that was labelled by hand.

    python benchmarks/verdicts/run.py --checkouts FOLDER [--set NAME]... [--source TEMPLATE] [--list] [--save FILE]

Clones each labelled repository into ``FOLDER`` at its commit, unless it is there, scans it with the gpulint of this
environment and prints a Markdown table for each set. ``--list`` adds every miss and false positive, ``--save`` writes
the findings as JSON for ``compare.py``. The README beside this file explains the labels and the matching.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from checkouts import folder_of, scan_all
from labelled import SETS, Finding, LabelSet, findings, load
from scoring import Counts, Score, score


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkouts", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--set", action="append", choices=SETS, dest="sets", help="default: all")
    parser.add_argument(
        "--source",
        default="https://github.com/{repository}",
        metavar="TEMPLATE",
        help="may name {owner} and {name} too",
    )
    parser.add_argument("--list", action="store_true", help="name misses and false positives")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the findings there")
    args = parser.parse_args()

    chosen = [load(name) for name in args.sets or SETS]
    commits = {repository: commit for labels in chosen for repository, commit in labels.commits.items()}
    reports = dict(scan_all(args.checkouts, commits, args.source))
    if args.save:
        everything: list[dict[str, Any]] = [row for report in reports.values() for row in report]
        args.save.write_text(json.dumps(everything, indent=1) + "\n")
    for labels in chosen:
        kept, absent = _present(labels, args.checkouts)
        found = [finding for name in kept.commits for finding in findings(reports[name])]
        result = score(kept, found)
        print("\n".join(_table(kept, result)))
        if absent:
            print(f"\nLeft out, for the checkouts lack them: {', '.join(absent)}")
        if args.list:
            print("\n".join(_details(result)))
        print()


def _present(labels: LabelSet, folder: Path) -> tuple[LabelSet, list[str]]:
    """The set without files that the checkouts lack, and their names."""
    here = {row for row in labels.files if (folder / folder_of(row[0]) / row[1]).is_file()}
    kept = tuple(label for label in labels.labels if (label.place.repository, label.place.path) in here)
    absent = sorted("/".join(row) for row in labels.files - here)
    return LabelSet(labels.name, labels.commits, frozenset(here), kept), absent


def _table(labels: LabelSet, result: Score) -> list[str]:
    unsure = sum(label.unsure for label in labels.labels)
    total = result.total
    return [
        f"## {labels.name}",
        "",
        f"{len(labels.files)} files of {len(labels.commits)} repositories: {total.issues} issues, {total.traps} traps, "
        f"{unsure} unsure. {result.uncounted} findings at unsure labels or second places are not counted; "
        f"{result.repeated} of the false ones repeat an issue at another of its lines.",
        "",
        "| problem | issues | traps | found | missed | false | at traps | precision | recall |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        *(_row(slug, counts) for slug, counts in sorted(result.by_slug.items())),
        _row("**all**", total),
    ]


def _row(name: str, counts: Counts) -> str:
    shares = ["" if share is None else f"{share:.3f}" for share in (counts.precision, counts.recall)]
    numbers = [counts.issues, counts.traps, counts.found, counts.issues - counts.found, counts.false, counts.at_traps]
    return "| " + " | ".join([name, *map(str, numbers), *shares]) + " |"


def _details(result: Score) -> list[str]:
    misses = sorted(result.misses, key=lambda label: (label.slug, str(label.place)))
    false = sorted(result.false, key=lambda row: (row[0].slugs, str(row[0].place)))
    return [
        "",
        "Missed:",
        "",
        *(f"- {label.slug} {label.place} ({label.why}{'; ' + label.needs if label.needs else ''})" for label in misses),
        "",
        "False positives:",
        "",
        *(_false(finding, trap.why if trap else "") for finding, trap in false),
    ]


def _false(finding: Finding, trap: str) -> str:
    reason = f" (trap: {trap})" if trap else ""
    return f"- {finding.slugs[0]} {finding.place} {finding.code} {finding.message}{reason}"


if __name__ == "__main__":
    main()
