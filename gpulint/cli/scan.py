"""``gpulint scan``: options and output of one run."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulint.cli import CLEAN, FINDINGS, INTERNAL, inputs
from gpulint.cli.terminal import Progress, add_troubles, colour, no_garbage_collection, print_troubles
from gpulint.config import ConfigError
from gpulint.reporters import FORMATS, Context, render

if TYPE_CHECKING:
    from gpulint.engine import Report

_FOR_PEOPLE = ("full", "concise")
_WITHOUT_FIXES = ("concise", "github")


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "scan", help="report what leaves GPUs idle", description="Report what leaves GPUs idle."
    )
    inputs.add_arguments(parser)
    output = parser.add_argument_group("output")
    output.add_argument("--output-format", choices=FORMATS, default="full", help="(default: full)")
    output.add_argument(
        "--output-file", type=Path, metavar="FILE", help="write findings there instead of standard output"
    )
    output.add_argument("--statistics", action="store_true", help="count the findings of each rule")
    output.add_argument("--show-notes", action="store_true", help="list what was skipped, and why")
    output.add_argument("--report-unused-ignores", action="store_true", help="report suppressions that hide nothing")
    output.add_argument("-q", "--quiet", action="store_true", help="print findings and errors only")
    output.add_argument("--exit-zero", action="store_true", help="exit 0 even if there are findings")
    inputs.add_settings(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Scan and report; returns the exit code."""
    from gpulint import engine

    given = inputs.read(args, report_unused_ignores=args.report_unused_ignores)
    with no_garbage_collection(), Progress() as progress:
        report = engine.run(
            given.project,
            given.found.files,
            given.rules,
            fixers={} if args.output_format in _WITHOUT_FIXES else given.plugins.fixers,
            jobs=args.jobs,
            report_unused_ignores=given.unused_ignores,
            progress=progress.update,
        )
    add_troubles(report, given)
    print_troubles(args, report, given)
    _print_findings(
        args, report, Context(given.project, given.rules, Path.cwd(), colour() and args.output_file is None)
    )
    if report.errors or given.plugins.failures:
        return INTERNAL
    troubled = report.results or any(problem.is_error for problem in report.problems)
    return FINDINGS if troubled and not args.exit_zero else CLEAN


def _print_findings(args: argparse.Namespace, report: Report, context: Context) -> None:
    text = render(args.output_format, report, context)
    if args.statistics:
        counts = Counter((result.finding.rule.code, result.finding.rule.name) for result in report.results)
        table = "".join(
            f"{n:6} {code} {name}\n" for (code, name), n in sorted(counts.items(), key=lambda c: (-c[1], c[0]))
        )
        if args.output_format in _FOR_PEOPLE:
            text += table
        else:
            sys.stderr.write(table)
    if args.output_file is None:
        sys.stdout.write(text)
        return
    try:
        args.output_file.write_bytes(text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise ConfigError(f"--output-file {args.output_file}: {error.strerror}") from None
