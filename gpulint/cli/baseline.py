"""``gpulint baseline create|update``: writes down the findings that a project accepts for now."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulint import baseline, disk
from gpulint.cli import CLEAN, FINDINGS, INTERNAL, inputs
from gpulint.cli.narrowing import add_baseline, load, stale
from gpulint.cli.terminal import Progress, add_troubles, no_garbage_collection, print_troubles
from gpulint.config import ConfigError
from gpulint.counting import counted
from gpulint.escaping import say, shown_path

if TYPE_CHECKING:
    from gpulint.baseline import Baseline, Entry
    from gpulint.cli.inputs import Inputs
    from gpulint.report import Report


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "baseline",
        help="record today's findings; later scans report only new ones",
        description="Record today's findings in a file; later scans report only new ones.",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    for name, text, run in (
        ("create", "write all findings to a new baseline", create),
        ("update", "remove findings that are gone from the baseline, and add new ones", update),
    ):
        action = actions.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        inputs.add_arguments(action)
        output = action.add_argument_group("output")
        add_baseline(output)
        if name == "create":
            output.add_argument("--force", action="store_true", help="replace an existing baseline")
        output.add_argument("--show-notes", action="store_true", help="list what was skipped, and why")
        output.add_argument("-q", "--quiet", action="store_true", help="print errors only")
        inputs.add_settings(action)
        action.set_defaults(run=run, output_format="full")


def create(args: argparse.Namespace) -> int:
    """Write a new baseline; returns the exit code."""
    given = _inputs(args)
    path = args.baseline.absolute() if args.baseline is not None else given.project.root / baseline.NAME
    if path.exists() and not args.force:
        raise ConfigError(f"{os.path.relpath(path)} already exists; run 'gpulint baseline update', or pass --force to"
                          " replace it")  # fmt: skip
    report = _scan(args, given)
    entries = baseline.Baseline(path).of((result.finding for result in report.results), given.project)
    _write(path, entries)
    if not args.quiet:
        say(f"{shown_path(path)}: {_count(entries)}", file=sys.stdout)
    return _exit_code(report, given)


def update(args: argparse.Namespace) -> int:
    """Bring a baseline up to date; returns the exit code."""
    given = _inputs(args)
    known = load(args.baseline, given)
    if known is None:
        raise ConfigError(f"no {baseline.NAME} here or in a folder above; 'gpulint baseline create' writes one")
    report = _scan(args, given)
    entries, added, dropped = updated(known, report, given)
    _write(known.path, entries)
    if not args.quiet:
        say(f"{shown_path(known.path)}: {_count(entries)} ({added} added, {dropped} removed)", file=sys.stdout)
    return _exit_code(report, given)


def updated(known: Baseline, report: Report, given: Inputs) -> tuple[list[Entry], int, int]:
    """The entries after an update, and how many findings came and went.

    What this run did not look at (other folders, rules that did not run, files that cannot be read) stays.
    """
    split = known.split(report.results, given.project)
    gone = stale(split.unmatched, known, given, report)
    unseen = [entry for entry in split.unmatched if entry not in gone]
    new = known.of((result.finding for result in split.new), given.project)
    entries = baseline.joined([*split.kept, *unseen, *new])
    return entries, len(split.new), sum(entry.count for entry in gone)


def _inputs(args: argparse.Namespace) -> Inputs:
    if args.stdin_filename is not None:
        raise ConfigError("a baseline cannot be made from standard input")
    return inputs.read(args)


def _scan(args: argparse.Namespace, given: Inputs) -> Report:
    from gpulint import engine

    with no_garbage_collection(), Progress() as progress:
        report = engine.run(
            given.project,
            given.found.files,
            given.rules,
            jobs=args.jobs,
            report_unused_ignores=given.unused_ignores,
            progress=progress.update,
        )
    add_troubles(report, given)
    print_troubles(args, report, given)
    return report


def _exit_code(report: Report, given: Inputs) -> int:
    if report.errors or given.plugins.failures:
        return INTERNAL
    return FINDINGS if any(problem.is_error for problem in report.problems) else CLEAN


def _count(entries: list[Entry]) -> str:
    return counted(sum(entry.count for entry in entries), "finding")


def _write(path: Path, entries: list[Entry]) -> None:
    from gpulint.writing import Change, WriteError, write

    try:
        before = disk.read(path, most=baseline.MAX_BYTES) if disk.exists(path) else None
        after = baseline.render(entries).encode("utf-8", "backslashreplace")
        write([Change(path, before, after)], path.parent)
    except (OSError, WriteError) as error:
        raise ConfigError(f"the baseline could not be written: {error}") from None
