"""What ``gpulint fix`` says of its work: diffs, a summary for people, and JSON."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

from gpulint.config import ConfigError
from gpulint.counting import counted
from gpulint.diffs import unified
from gpulint.escaping import no_command, path_first, printable
from gpulint.fix import Fix
from gpulint.outcomes import Fixed, Outcome, State
from gpulint.reporters import Context
from gpulint.reporters.json_ import finding
from gpulint.writing import Change

_MOST_PLACES = 5
_COLOURS = {"+++": "1", "---": "1", "@@": "36", "+": "32", "-": "31"}


def as_json(outcome: Outcome, context: Context) -> dict[str, Any]:
    """A finding as ``gpulint scan`` has it, with what became of it."""
    return {
        **finding(outcome.result, context),
        "applied": outcome.state is State.APPLIED,
        "state": str(outcome.state),
        "reason": outcome.reason or None,
        "round": outcome.round,
    }


def print_diffs(fixed: Fixed, context: Context) -> None:
    """The changes as unified diffs; exact bytes, except that a terminal gets colours and no control characters."""
    for change in fixed.changes:
        print_diff(change, context)


def diffs(fixed: Fixed, context: Context) -> bytes:
    """The changes as unified diffs, for a file."""
    return b"".join(unified(change, context.cwd) for change in fixed.changes)


def write_file(option: str, file: Path, content: bytes) -> None:
    """Write a file that the user named. Raises ConfigError if that cannot be done."""
    try:
        file.write_bytes(content)
    except OSError as error:
        raise ConfigError(f"{option} {file}: {error.strerror}") from None


def print_diff(change: Change, context: Context) -> None:
    """The change of one file, as :func:`print_diffs` has it."""
    diff = unified(change, context.cwd)
    if sys.stdout.isatty() or context.colour:
        lines = diff.decode("utf-8", "surrogateescape").split("\n")
        sys.stdout.write("\n".join(_shown(line, context.colour) for line in lines))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(diff)
        sys.stdout.buffer.flush()


def _shown(line: str, colour: bool) -> str:
    line = no_command(printable(line.removesuffix("\r"), keep="\t"))
    code = next((code for start, code in _COLOURS.items() if line.startswith(start)), None)
    return f"\033[{code}m{line}\033[0m" if colour and code is not None else line


def summary(fixed: Fixed, context: Context, *, applied: bool) -> list[str]:
    """Lines: what was done in each file, what unsafe fixes would do, and what is left."""
    done = fixed.of(State.APPLIED)
    codes_of: dict[Path, Counter[str]] = {}
    for outcome in done:
        for path in outcome.paths:
            codes_of.setdefault(path, Counter())[outcome.result.finding.rule.code] += 1
    lines = [_file(change, codes_of.get(change.path, Counter()), context) for change in fixed.changes]
    if done:
        total = f"{counted(len(done), 'fix')} in {counted(len(lines), 'file')}"
        lines += [f"Applied {total}." if applied else f"{total} can be applied with --apply."]
    else:
        lines += ["No fixes applied." if applied else "Nothing to fix."]
    if waiting := fixed.of(State.UNSAFE):
        lines += [f"{len(waiting)} more with --unsafe-fixes:"]
        lines += [f"  {_place(outcome, context)}: {_description(outcome)}" for outcome in waiting]
    if declined := fixed.of(State.DECLINED):
        lines += [f"{counted(len(declined), 'finding')} not fixed:"]
        lines += _by_reason(declined, context)
    if skipped := fixed.of(State.SKIPPED):
        lines += [f"{counted(len(skipped), 'fix')} skipped."]
    if by_hand := [*fixed.of(State.ADVICE), *fixed.of(State.UNFIXABLE)]:
        codes = Counter(outcome.result.finding.rule.code for outcome in by_hand)
        lines += [f"{counted(len(by_hand), 'finding')} to fix by hand ({_codes(codes)}); see gpulint scan."]
    return lines


def _by_reason(outcomes: list[Outcome], context: Context) -> list[str]:
    """A line for each outcome; where several share a rule and reason, these once and the first places below them."""
    groups: dict[tuple[str, str], list[str]] = {}
    for outcome in outcomes:
        found = outcome.result.finding
        groups.setdefault((found.rule.code, outcome.reason), []).append(context.place(found.path, found.span))
    lines = []
    for (code, reason), places in sorted(groups.items(), key=lambda group: -len(group[1])):
        if len(places) == 1:
            lines.append(f"  {places[0]}: {code}: {reason}")
            continue
        more = len(places) - _MOST_PLACES
        shown = [*places[:_MOST_PLACES], *([f"and {more:,} more (--output-format json has all)"] if more > 0 else [])]
        lines += [f"  {len(places):,} x {code}: {reason}:", f"    {', '.join(shown)}"]
    return lines


def _file(change: Change, codes: Counter[str], context: Context) -> str:
    """``train.py: 3 fixes (GPU301, GPU302 x 2)``."""
    what = f"new file, {counted(codes.total(), 'fix')}" if change.before is None else counted(codes.total(), "fix")
    return f"{path_first(context.relative(change.path))}: {what} ({_codes(codes)})"


def _codes(codes: Counter[str]) -> str:
    return ", ".join(f"{code} x {count}" if count > 1 else code for code, count in sorted(codes.items()))


def _place(outcome: Outcome, context: Context) -> str:
    found = outcome.result.finding
    return f"{context.place(found.path, found.span)}: {found.rule.code}"


def _description(outcome: Outcome) -> str:
    fix = outcome.result.fix
    return fix.description if isinstance(fix, Fix) else ""
