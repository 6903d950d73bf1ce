"""GitHub Actions workflow commands, which show findings on the changed lines of a pull request."""

from __future__ import annotations

from gpulint.escaping import no_command, printable
from gpulint.finding import Finding, Severity
from gpulint.report import Report
from gpulint.reporters import Context
from gpulint.reporters.impact_text import impact_line

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def render(report: Report, context: Context) -> str:
    """``::warning file=...,line=...::message`` lines."""
    return "".join(_command(result.finding, context) + "\n" for result in report.results)


def _command(found: Finding, context: Context) -> str:
    title = f"{found.rule.code} {found.rule.name}"
    span, where = context.in_file(found.path, found.span)
    message = where + printable(found.message)
    fields = {"file": context.relative(found.path), "title": title}
    fields |= {"line": str(span.line), "endLine": str(span.end_line)}
    if span.line == span.end_line:
        # GitHub ignores columns of a place that spans lines.
        fields |= {"col": str(span.column), "endColumn": str(span.end_column)}
    listed = ",".join(f"{name}={_property(value)}" for name, value in fields.items())
    if impact := impact_line(found.impact):
        message += "\n" + printable(impact)
    if found.help:
        message += "\n" + "\n".join(printable(line) for line in found.help.splitlines())
    return f"::{_LEVELS[found.severity]} {listed}::{_data(message)}"


def _data(text: str) -> str:
    """``text`` as GitHub's toolkit escapes it; what else a log would obey is shown as an escape."""
    text = no_command(printable(text, keep="\r\n"))
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
