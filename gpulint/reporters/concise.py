"""One line per finding, for editors, grep and people who know the rules."""

from __future__ import annotations

from gpulint.fix import Fix, Safety
from gpulint.report import Report, Result
from gpulint.reporters import Context
from gpulint.reporters.impact_text import is_known
from gpulint.reporters.summary import summary
from gpulint.reporters.terminal_text import safe


def render(report: Report, context: Context) -> str:
    """``path:line:column: CODE [*] message (severity, impact)`` lines and a count; ``[*]`` marks safe fixes."""
    lines = [_line(result, context) for result in report.results]
    if (lines or context.hidden) and not context.quiet:
        lines += summary(report, context)
    return "".join(safe(line) + "\n" for line in lines)


def _line(result: Result, context: Context) -> str:
    found, fix = result.finding, result.fix
    mark = "[*] " if isinstance(fix, Fix) and fix.changes and fix.safety is Safety.SAFE else ""
    level = f", {found.impact.level} impact" if is_known(found.impact) else ""
    where = context.place(found.path, found.span)
    return f"{where}: {found.rule.code} {mark}[{found.rule.name}] {found.message} ({found.severity}{level})"
