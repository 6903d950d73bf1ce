"""One line per finding, for editors, grep and people who know the rules."""

from __future__ import annotations

from gpulint.engine import Report
from gpulint.reporters import Context


def render(report: Report, context: Context) -> str:
    """``path:line:column: CODE [name] message`` lines."""
    return "".join(
        f"{context.place(found.path, found.span)}: {found.rule.code} [{found.rule.name}] {found.message}\n"
        for found in (result.finding for result in report.results)
    )
