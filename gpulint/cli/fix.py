"""``gpulint fix``: shows or applies fixes.

Exit codes: 0 done, 1 a file could not be read or written or a fix could not be done (with ``--diff`` also: there are
changes), 2 misuse, bad settings or files that ``--apply`` would change and git could not bring back, 3 internal error.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulint.cli import CLEAN, FINDINGS, INTERNAL, MISUSE, inputs
from gpulint.cli.narrowing import add_baseline_choice, not_shown
from gpulint.cli.terminal import Progress, add_colour, add_troubles, colour, no_garbage_collection, print_troubles
from gpulint.escaping import say

if TYPE_CHECKING:
    from gpulint.cli.inputs import Inputs
    from gpulint.fix_scans import NotAccepted
    from gpulint.fixing import Approval
    from gpulint.outcomes import Fixed
    from gpulint.project import Project
    from gpulint.reporters import Context
    from gpulint.rule import Rule

_FOLDED = "`gpulint scan` shows copies, and the places of one repair, as one finding; each of them is a fix here."


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
    mode.add_argument(
        "-i", "--interactive", action="store_true", help="ask about each fix, and write those that you choose"
    )
    mode.add_argument(
        "--commit-per-rule", action="store_true", help="write the changes, and commit those of each rule (no hooks run)"
    )
    fixes.add_argument("--unsafe-fixes", action="store_true", help="include fixes that change what the program does")
    fixes.add_argument("--allow-dirty", action="store_true", help="also modify files with uncommitted changes")
    fixes.add_argument("--allow-no-vcs", action="store_true", help="also modify files outside of a git repository")
    output = parser.add_argument_group("output")
    output.add_argument("--patch", type=Path, metavar="FILE", help="write the diff to this file instead of printing it")
    output.add_argument(
        "--markdown", type=Path, metavar="FILE", help="write the description of a pull request to this file"
    )
    output.add_argument("--output-format", choices=("full", "json"), default="full", help="(default: full)")
    output.add_argument("--show-notes", action="store_true", help="list what was skipped, and why")
    add_colour(output)
    output.add_argument("-q", "--quiet", action="store_true", help="print diffs and errors only")
    inputs.add_settings(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Fix and report; returns the exit code."""
    from gpulint.cli.dirty import refused
    from gpulint.cli.interactive import Prompt
    from gpulint.outcomes import State
    from gpulint.reporters import Context

    given = inputs.read(args)
    writes = (args.apply or args.interactive or args.commit_per_rule) and given.stdin is None
    _check(args, given)
    if writes:
        from gpulint.writing import remove_leftovers

        remove_leftovers((path.parent for path in given.project.files), given.project.root)
    shown, impact = not_shown(args, given)
    context = Context(given.project, given.rules, Path.cwd(), colour(args.color))
    fixed = _fix(args, given, given.rules, shown, Prompt(context) if args.interactive else None)
    add_troubles(fixed.report, given)
    print_troubles(args, fixed.report, given)
    if writes and refused((change.path for change in fixed.changes), dirty=args.allow_dirty, no_vcs=args.allow_no_vcs):
        return MISUSE
    if args.commit_per_rule:
        from gpulint.cli.commit_per_rule import commit

        fixed = commit(fixed, given, lambda rule, project: _fix(args, given, [rule], shown, None, project))
    elif writes:
        write(fixed, given.project.root)
    for outcome in fixed.of(State.DROPPED):
        found = outcome.result.finding
        say(f"{context.place(found.path, found.span)}: {found.rule.code} was not fixed: {outcome.reason}")
    notes = [_FOLDED] if impact.folded > 0 and len(fixed.changes) > 0 else []
    _print(args, fixed, given, context, [*notes, impact.note])
    if fixed.report.errors or given.plugins.failures:
        return INTERNAL
    troubled = any(problem.is_error for problem in fixed.report.problems) or fixed.of(State.DROPPED)
    return FINDINGS if troubled or (args.diff and fixed.groups) else CLEAN


def _check(args: argparse.Namespace, given: Inputs) -> None:
    """Options that do not go together."""
    from gpulint.config import ConfigError

    for name in ("interactive", "commit_per_rule"):
        if getattr(args, name) and given.stdin is not None:
            raise ConfigError(f"--{name.replace('_', '-')} cannot be used with standard input")
        if getattr(args, name) and args.output_format == "json":
            raise ConfigError(f"--{name.replace('_', '-')} cannot be used with --output-format json")
    if args.commit_per_rule and args.allow_dirty:
        raise ConfigError("--commit-per-rule cannot be used with --allow-dirty; commit your changes first")


def _fix(
    args: argparse.Namespace,
    given: Inputs,
    rules: Sequence[Rule],
    shown: NotAccepted,
    approval: Approval | None,
    project: Project | None = None,
) -> Fixed:
    from gpulint import fixing

    with no_garbage_collection(), Progress() as progress:
        return fixing.fix(
            project or given.project,
            given.found.files,
            rules,
            given.plugins.fixers,
            unsafe=args.unsafe_fixes,
            refusal=_refusal(given),
            approval=approval,
            not_accepted=shown,
            jobs=args.jobs,
            progress=None if approval else progress.update,
        )


def _refusal(given: Inputs) -> Callable[[Path], str | None]:
    """Return which files a fix may not change: what cannot be written, and with standard input every other file."""
    from gpulint.writing import refusal

    if given.stdin is None:
        return lambda path: refusal(path, given.project.root)
    (only,) = given.found.files
    return lambda path: None if path == only else "it would change other files, not only standard input"


def write(fixed: Fixed, root: Path) -> None:
    """Write what fixes changed; what cannot be written is dropped, with the reason."""
    from gpulint import writing

    for group in [*fixed.groups]:
        try:
            writing.write(group, root)
        except writing.WriteError as error:
            fixed.drop(group, str(error))


def _print(args: argparse.Namespace, fixed: Fixed, given: Inputs, context: Context, notes: list[str]) -> None:
    from gpulint.cli import fix_report
    from gpulint.cli.outputs import write_utf8
    from gpulint.reporters import as_json, pull_request

    written = args.apply or args.interactive or args.commit_per_rule
    if args.patch is not None:
        fix_report.write_file("--patch", args.patch, fix_report.diffs(fixed, context))
    if args.markdown is not None:
        text = pull_request.render(fixed, context)
        fix_report.write_file("--markdown", args.markdown, text.encode("utf-8", "backslashreplace"))
    if args.output_format == "json":
        findings = [fix_report.as_json(outcome, context) for outcome in fixed.outcomes]
        write_utf8(as_json(findings))
        return
    sys.stdout.flush()
    if given.stdin is not None and not args.diff:
        sys.stdout.buffer.write(fixed.project.data(given.found.files[0]))
    elif not written and args.patch is None:
        fix_report.print_diffs(fixed, context)
    sys.stdout.flush()
    if not args.diff and not args.quiet:
        summary = fix_report.summary(fixed, context, applied=written)
        say(*summary, *filter(None, notes), file=sys.stdout if given.stdin is None else sys.stderr)
