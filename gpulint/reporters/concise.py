"""One line per finding, for editors, grep and people who know the rules."""

from __future__ import annotations

from gpulint.escaping import no_command, printable
from gpulint.report import Report
from gpulint.reporters import Context


def render(report: Report, context: Context) -> str:
    """``path:line:column: CODE [name] message`` lines."""
    lines = (
        f"{context.place(found.path, found.span)}: {found.rule.code} [{found.rule.name}] {found.message}"
        for found in (result.finding for result in report.results)
    )
    return "".join(no_command(printable(line)) + "\n" for line in lines)
