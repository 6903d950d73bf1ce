"""What a change of gpulint does to real code: findings that are new, gone, moved or worded differently.

    python benchmarks/verdicts/compare.py --checkouts FOLDER [--set NAME]... BEFORE AFTER

``BEFORE`` and ``AFTER`` are each a file of findings (``run.py --save``, or ``gpulint scan --output-format json`` over
the folder), or a command that starts a gpulint, such as ``old/.venv/bin/gpulint`` or ``"python -m gpulint"``; a command
scans the checkouts of ``FOLDER`` (by default all folders called ``owner+name``). Prints Markdown with links to the
code, and with the verdict of the label that a finding meets. Exits with 0 whatever it finds.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from checkouts import commit_of, folder_of, scan
from labelled import SETS, Finding, Label, findings, load
from scoring import closeness


@dataclass
class Changes:
    """Findings of one of two runs, and pairs that are the same problem reported in another way."""

    new: list[Finding] = field(default_factory=list)
    gone: list[Finding] = field(default_factory=list)
    moved: list[tuple[Finding, Finding]] = field(default_factory=list)
    reworded: list[tuple[Finding, Finding]] = field(default_factory=list)
    same: int = 0


def main() -> None:
    """Print the changes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkouts", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--set", action="append", choices=SETS, dest="sets", help="only the repositories of this set")
    parser.add_argument("before", metavar="BEFORE")
    parser.add_argument("after", metavar="AFTER")
    args = parser.parse_args()

    names = sorted({name for chosen in args.sets or () for name in load(chosen).commits})
    names = names or sorted(
        path.name.replace("+", "/", 1) for path in args.checkouts.iterdir() if "+" in path.name and path.is_dir()
    )
    runs = [_findings(run, args.checkouts, names) for run in (args.before, args.after)]
    changes = compare(*runs)
    commits = {name: commit_of(args.checkouts / folder_of(name)) for name in names}
    labels = [label for name in args.sets or SETS for label in load(name).labels]
    print("\n".join(report(changes, commits, labels)))


def compare(before: Iterable[Finding], after: Iterable[Finding]) -> Changes:
    """Tell what changed; a finding with the same code and message elsewhere in its file has moved."""
    old, new = Counter(before), Counter(after)
    changes = Changes(same=(old & new).total())
    gone, added = list((old - new).elements()), list((new - old).elements())
    changes.reworded = _pairs(gone, added, lambda finding: (finding.place, finding.code))
    changes.moved = _pairs(gone, added, lambda finding: (_file(finding), finding.code, finding.message))
    changes.gone, changes.new = gone, added
    return changes


def report(changes: Changes, commits: Mapping[str, str | None], labels: Sequence[Label]) -> list[str]:
    """Markdown lines."""
    parts = {"New": changes.new, "Gone": changes.gone}
    counts = [f"{len(found)} {name.lower()}" for name, found in parts.items()]
    counts += [f"{len(changes.moved)} moved", f"{len(changes.reworded)} reworded", f"{changes.same} the same"]
    lines = [", ".join(counts), ""]
    for name, found in parts.items():
        if found:
            lines += [f"## {name}", "", *_by_code(found), ""]
            lines += [
                f"- {_line(finding, commits)}{_verdict(finding, labels)}" for finding in sorted(found, key=_order)
            ]
            lines.append("")
    if changes.moved:
        lines += ["## Moved", ""]
        lines += [f"- {_line(now, commits)} (was {_spot(then)})" for then, now in changes.moved] + [""]
    if changes.reworded:
        lines += ["## Reworded", ""]
        lines += [f"- {_line(now, commits)} (was: {then.message})" for then, now in changes.reworded] + [""]
    return lines


def _findings(run: str, checkouts: Path, names: Sequence[str]) -> list[Finding]:
    if Path(run).suffix == ".json":
        found = findings(json.loads(Path(run).read_text()))
        return [finding for finding in found if finding.place.repository in names]
    rows = []
    for name in names:
        print(f"{run}: {name}", file=sys.stderr)
        rows += scan(checkouts, name, run)
    return findings(rows)


def _pairs(
    gone: list[Finding], added: list[Finding], key: Callable[[Finding], Hashable]
) -> list[tuple[Finding, Finding]]:
    """Take pairs with the same key out of both lists, in the order of their lines."""
    waiting: dict[Hashable, list[Finding]] = defaultdict(list)
    for finding in sorted(gone, key=_order):
        waiting[key(finding)].append(finding)
    pairs = []
    for finding in sorted(added, key=_order):
        if waiting[key(finding)]:
            pairs.append((waiting[key(finding)].pop(0), finding))
    for then, now in pairs:
        gone.remove(then)
        added.remove(now)
    return pairs


def _by_code(found: Iterable[Finding]) -> list[str]:
    counts = Counter(finding.code for finding in found)
    return [", ".join(f"{code} {number}" for code, number in sorted(counts.items()))]


def _line(finding: Finding, commits: Mapping[str, str | None]) -> str:
    place, commit = finding.place, commits.get(finding.place.repository)
    text = str(place)
    if commit:
        line = "" if place.cell is not None else f"#L{place.line}"
        text = f"[{text}](https://github.com/{place.repository}/blob/{commit}/{place.path}{line})"
    return f"{finding.code} {text} {finding.message}"


def _verdict(finding: Finding, labels: Iterable[Label]) -> str:
    """Verdict of the nearest label of the finding's kind."""
    near = [(key, label) for label in labels if (key := closeness(finding, label)) is not None]
    if not near:
        return ""
    _, label = min(near, key=lambda row: row[0])
    return f" (**{'unsure' if label.unsure else label.verdict}**: {label.why})"


def _file(finding: Finding) -> tuple[str, str]:
    return finding.place.repository, finding.place.path


def _spot(finding: Finding) -> str:
    cell = "" if finding.place.cell is None else f"cell {finding.place.cell}, "
    return f"{cell}line {finding.place.line}"


def _order(finding: Finding) -> tuple[str, str, int, int, str]:
    cell = -1 if finding.place.cell is None else finding.place.cell
    return *_file(finding), cell, finding.place.line, finding.code


if __name__ == "__main__":
    main()
