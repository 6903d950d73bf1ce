"""The format for people: the source with the span underlined, what to do, and once for each rule why."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from gpulint import regex
from gpulint.counting import counted
from gpulint.escaping import no_command, printable
from gpulint.finding import Severity
from gpulint.fix import Declined, Fix
from gpulint.report import Report, Result
from gpulint.reporters import Context
from gpulint.source import SourceText, Span

_TAB = 4
_MAX_LINES = 4
_LABEL = regex.compile(r"(  )(-->|(?:note|why|worth|do|fix(?: \(\w+\))?|no fix|see):)(?= )")
_MAX_WIDTH = 600
"""Most characters of a line that are shown."""
_COLOURS = {Severity.ERROR: "31", Severity.WARNING: "33", Severity.INFO: "36"}


def render(report: Report, context: Context) -> str:
    """All findings, each with its excerpt, followed by a count."""
    explained = set[str]()
    blocks = []
    for result in report.results:
        code = result.finding.rule.code
        blocks.append(_block(result, context, explain=code not in explained))
        explained.add(code)
    if context.quiet:
        return "\n".join(blocks)
    return "\n".join(blocks) + ("\n" if blocks else "") + summary(report) + "\n"


def summary(report: Report) -> str:
    """``Found 3 findings (1 error, 2 warnings) in 2 files; 1 can be fixed (1 safely). 1 file could not be checked.``"""
    failed = unchecked(report)
    if report.results:
        return f"{_found(report)} {failed}".rstrip()
    return failed or "No findings."


def unchecked(report: Report) -> str:
    """``2 files could not be checked.``, empty if all were."""
    failed = {problem.path for problem in report.problems if problem.is_error}
    unread = failed - {result.finding.path for result in report.results}
    partly = (failed | {error.path for error in report.errors}) - unread
    parts = [f"{counted(len(unread), 'file')} could not be checked."] if unread else []
    parts += [f"{counted(len(partly), 'file')} could not be checked completely."] if partly else []
    return " ".join(parts)


def _found(report: Report) -> str:
    findings = [result.finding for result in report.results]
    levels = [(level, sum(found.severity is level for found in findings)) for level in reversed(Severity)]
    counts = ", ".join(
        f"{count} info" if level is Severity.INFO else counted(count, str(level)) for level, count in levels if count
    )
    fixes = [result.fix.safety for result in report.results if isinstance(result.fix, Fix) and result.fix.edits]
    files = len({found.path for found in findings})
    fixable = f"; {len(fixes)} can be fixed ({fixes.count(fixes[0].SAFE)} safely)" if fixes else ""
    return f"Found {counted(len(findings), 'finding')} ({counts}) in {counted(files, 'file')}{fixable}."


def _block(result: Result, context: Context, *, explain: bool) -> str:
    """One finding; ``explain`` says why it costs GPU time, which is the same for all findings of a rule."""
    found, rule = result.finding, result.finding.rule
    colour = _COLOURS[found.severity]
    head = printable(f" {rule.name} ({found.severity}): {found.message}")
    lines = [_paint(printable(rule.code), colour, context) + head]
    lines += [printable(f"  --> {context.place(found.path, found.span)}")]
    lines += _excerpt(context.source(found.path, found.span.cell), found.span, colour, context)
    lines += [
        printable(f"  note: {context.place(place.path, place.span)}: {place.message}".rstrip(": "))
        for place in found.related
    ]
    if explain:
        lines += _wrapped("why", rule.why, context.width)
        if "706" not in rule.why:
            lines += _wrapped("worth", rule.worth, context.width)
    lines += _wrapped("do", found.help, context.width)
    if isinstance(result.fix, Fix):
        label = "fix" if not result.fix.edits else f"fix ({result.fix.safety})"
        lines += _wrapped(label, result.fix.description, context.width)
    elif isinstance(result.fix, Declined):
        lines += _wrapped("no fix", result.fix.reason, context.width)
    if explain:
        lines.append(printable(f"  see: {rule.url}"))
    return "\n".join(_labelled(no_command(line), context) for line in [*lines, ""])


def _labelled(line: str, context: Context) -> str:
    """``line`` with its label (``do:``) in bold, if it has one."""
    match = _LABEL.match(line) if context.colour else None
    return line if match is None else f"{match[1]}\033[1m{match[2]}\033[0m{line[match.end() :]}"


@lru_cache(maxsize=1000)
def _wrapped(label: str, text: str, width: int) -> Sequence[str]:
    """``label: text`` folded to the width; lines after the first (a Dockerfile to copy) stay as they are."""
    if not text:
        return []
    first, *rest = (printable(line, keep="\t") for line in text.split("\n"))
    folded = textwrap.wrap(
        first,
        width,
        initial_indent=f"  {label}: ",
        subsequent_indent=" " * (len(label) + 4),
        break_long_words=False,  # paths and addresses stay whole
        break_on_hyphens=False,
    )
    return folded + [f"    {line}" for line in rest]


def _excerpt(source: SourceText, span: Span, colour: str, context: Context) -> list[str]:
    """The lines of ``span``, each underlined where the span covers it."""
    last = span.end_line - 1 if span.end_column == 1 and span.end_line > span.line else span.end_line
    shown = range(span.line, min(last, span.line + _MAX_LINES - 1) + 1)
    gutter = len(str(shown[-1]))
    lines = [" " * gutter + " |"]
    for number in shown:
        text = source.line(number)
        start = span.column - 1 if number == span.line else len(text) - len(text.lstrip())
        end = span.end_column - 1 if number == span.end_line else len(text.rstrip())
        text, start, end = _window(text, start, end)
        lines.append(f"{number:>{gutter}} | {_display(text)}".rstrip())
        before, marked = _width(text[:start]), _width(text[:end]) - _width(text[:start])
        lines.append(" " * gutter + " | " + " " * before + _paint("^" * max(marked, 1), colour, context))
    if last > shown[-1]:
        lines.append(f"{'.' * gutter} | ... to line {last}")
    return lines


def _window(text: str, start: int, end: int) -> tuple[str, int, int]:
    """The part of an overlong line around a span, with the span's place in it."""
    if len(text) <= _MAX_WIDTH:
        return text, start, end
    first, last = max(start - _MAX_WIDTH // 3, 0), start + _MAX_WIDTH * 2 // 3
    head, tail = "..." if first else "", "..." if last < len(text) else ""
    shift = len(head) - first
    return head + text[first:last] + tail, start + shift, min(end, last) + shift


def _display(text: str) -> str:
    """``text`` as printed: tabs as blanks, and what the terminal would obey as escapes."""
    if text.isascii() and text.isprintable():
        return text
    shown, width = [], 0
    for char in text:
        if char == "\t":
            char = " " * (_TAB - width % _TAB)
        else:
            char = printable(char)
        shown.append(char)
        width += _char_width(char) if len(char) == 1 else len(char)
    return "".join(shown)


def _width(text: str) -> int:
    """Columns that ``_display(text)`` takes up in a terminal."""
    shown = _display(text)
    return len(shown) if shown.isascii() else sum(map(_char_width, shown))


def _char_width(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def _paint(text: str, colour: str, context: Context) -> str:
    return f"\033[1;{colour}m{text}\033[0m" if context.colour else text
