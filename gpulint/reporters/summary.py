"""The last lines of a report for people: what was found, what can be fixed, and what was left out."""

from __future__ import annotations

from gpulint.counting import counted
from gpulint.finding import Severity
from gpulint.fix import Fix, Safety
from gpulint.report import Report
from gpulint.reporters import Context
from gpulint.reporters.terminal_text import safe


def render(report: Report, context: Context) -> str:
    """All that there is to print where nothing was found."""
    return "" if context.quiet else "".join(safe(line) + "\n" for line in summary(report, context))


def summary(report: Report, context: Context, blocks: int = 0) -> list[str]:
    """Lines such as ``Found 3 findings (1 error, 2 warnings) in 2 files.`` and ``[*] 2 fixable with ...``. ``blocks``
    is the number of blocks that show the findings."""
    failed = unchecked(report)
    if not report.results:
        return [*filter(None, [failed or ("No findings." if context.files else ""), context.hidden])]
    return [*filter(None, [f"{_found(report, blocks)} {failed}".rstrip(), _fixable(report), context.hidden])]


def unchecked(report: Report) -> str:
    """``2 files could not be checked.``, empty if all were."""
    failed = {problem.path for problem in report.problems if problem.is_error}
    unread = failed - {result.finding.path for result in report.results}
    partly = (failed | {error.path for error in report.errors}) - unread
    parts = [f"{counted(len(unread), 'file')} could not be checked."] if unread else []
    parts += [f"{counted(len(partly), 'file')} could not be checked completely."] if partly else []
    return " ".join(parts)


def _found(report: Report, blocks: int) -> str:
    shown = f", those of one cause together ({blocks:,} shown)" if 0 < blocks < len(report.results) else ""
    findings = [result.finding for result in report.results]
    levels = [(level, sum(found.severity is level for found in findings)) for level in reversed(Severity)]
    counts = ", ".join(
        f"{count} info" if level is Severity.INFO else counted(count, str(level)) for level, count in levels if count
    )
    files = len({found.path for found in findings})
    return f"Found {counted(len(findings), 'finding')} ({counts}) in {counted(files, 'file')}{shown}."


def _fixable(report: Report) -> str:
    """``[*] 3 fixable with `gpulint fix --apply` (1 more with `--unsafe-fixes`).``, empty if none are."""
    fixes = [result.fix.safety for result in report.results if isinstance(result.fix, Fix) and result.fix.changes]
    safe = fixes.count(Safety.SAFE)
    unsafe = len(fixes) - safe
    if safe:
        more = f" ({unsafe:,} more with `--unsafe-fixes`)" if unsafe else ""
        return f"[*] {safe:,} fixable with `gpulint fix --apply`{more}."
    return f"{unsafe:,} fixable with `gpulint fix --apply --unsafe-fixes`." if unsafe else ""
