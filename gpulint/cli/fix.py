"""``gpulint fix``: shows or applies fixes.

Exit codes: 0 done, 1 a file could not be read or written or a fix could not be done (with ``--diff`` also: there are
changes), 2 misuse, bad settings or unsaved changes that ``--apply`` would touch, 3 internal error.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulint.cli import CLEAN, FINDINGS, INTERNAL, MISUSE, inputs
from gpulint.cli.narrowing import add_baseline_choice, not_shown
from gpulint.cli.terminal import Progress, add_colour, add_troubles, colour, no_garbage_collection, print_troubles
from gpulint.escaping import say

if TYPE_CHECKING:
    from gpulint.cli.inputs import Inputs
    from gpulint.outcomes import Fixed
    from gpulint.reporters import Context


def add(commands: argparse._SubParsersAction[Any]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "fix",
        help="show or apply fixes",
        description="Show what safe fixes would change, as a diff. Nothing is written without --apply.",
    )
    inputs.add_arguments(parser)
    inputs.add_impact(parser)
    add_baseline_choice(parser.add_argument_group("new findings only"))
    fixes = parser.add_argument_group("fixes")
    mode = fixes.add_mutually_exclusive_group()
    mode.add_argument("--apply", action="store_true", help="write the changes")
    mode.add_argument("--diff", action="store_true", help="print the diff only; exit 1 if there are changes")
    fixes.add_argument("--unsafe-fixes", action="store_true", help="include fixes that change what the program does")
    fixes.add_argument("--allow-dirty", action="store_true", help="also modify files with uncommitted changes")
    output = parser.add_argument_group("output")
    output.add_argument("--output-format", choices=("full", "json"), default="full", help="(default: full)")
    output.add_argument("--show-notes", action="store_true", help="list what was skipped, and why")
    add_colour(output)
    output.add_argument("-q", "--quiet", action="store_true", help="print diffs and errors only")
    inputs.add_settings(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Fix and report; returns the exit code."""
    from gpulint import fixing
    from gpulint.cli.dirty import refused
    from gpulint.outcomes import State
    from gpulint.reporters import Context

    given = inputs.read(args)
    if args.apply and given.stdin is None:
        from gpulint.writing import remove_leftovers

        remove_leftovers((path.parent for path in given.project.files), given.project.root)
    shown, impact = not_shown(args, given)
    with no_garbage_collection(), Progress() as progress:
        fixed = fixing.fix(
            given.project,
            given.found.files,
            given.rules,
            given.plugins.fixers,
            unsafe=args.unsafe_fixes,
            refusal=_refusal(given),
            not_accepted=shown,
            jobs=args.jobs,
            progress=progress.update,
        )
    add_troubles(fixed.report, given)
    print_troubles(args, fixed.report, given)
    if args.apply and given.stdin is None:
        if not args.allow_dirty and refused(change.path for change in fixed.changes):
            return MISUSE
        _write(fixed, given.project.root)
    context = Context(given.project, given.rules, Path.cwd(), colour(args.color))
    for outcome in fixed.of(State.DROPPED):
        found = outcome.result.finding
        say(f"{context.place(found.path, found.span)}: {found.rule.code} was not fixed: {outcome.reason}")
    _print(args, fixed, given, context, impact.note)
    if fixed.report.errors or given.plugins.failures:
        return INTERNAL
    troubled = any(problem.is_error for problem in fixed.report.problems) or fixed.of(State.DROPPED)
    return FINDINGS if troubled or (args.diff and fixed.groups) else CLEAN


def _refusal(given: Inputs) -> Callable[[Path], str | None]:
    """Which files a fix may not change: what cannot be written, and with standard input every other file."""
    from gpulint.writing import refusal

    if given.stdin is None:
        return lambda path: refusal(path, given.project.root)
    (only,) = given.found.files
    return lambda path: None if path == only else "it would change other files, not only standard input"


def _write(fixed: Fixed, root: Path) -> None:
    from gpulint.writing import WriteError, write

    for group in [*fixed.groups]:
        try:
            write(group, root)
        except WriteError as error:
            fixed.drop(group, str(error))


def _print(args: argparse.Namespace, fixed: Fixed, given: Inputs, context: Context, hidden: str) -> None:
    from gpulint.cli import fix_report
    from gpulint.cli.outputs import write_utf8
    from gpulint.reporters import as_json

    if args.output_format == "json":
        findings = [fix_report.as_json(outcome, context) for outcome in fixed.outcomes]
        write_utf8(as_json(findings))
        return
    sys.stdout.flush()
    if given.stdin is not None and not args.diff:
        sys.stdout.buffer.write(fixed.project.data(given.found.files[0]))
    elif not args.apply:
        fix_report.print_diffs(fixed, context)
    sys.stdout.flush()
    if not args.diff and not args.quiet:
        summary = fix_report.summary(fixed, context, applied=args.apply)
        say(*summary, *filter(None, [hidden]), file=sys.stdout if given.stdin is None else sys.stderr)
