"""GitLab's code quality report: a list of findings, each with a fingerprint that tells it from all others."""

from __future__ import annotations

from typing import Any

from gpulint.finding import Severity
from gpulint.fingerprint import fingerprints
from gpulint.report import Report, Result
from gpulint.reporters import Context, as_json

_LEVELS = {Severity.ERROR: "critical", Severity.WARNING: "major", Severity.INFO: "info"}


def render(report: Report, context: Context) -> str:
    """The report; GitLab shows only the first of findings that share a fingerprint, so none do."""
    marks = fingerprints([result.finding for result in report.results], context.project)
    findings = [_finding(result, mark, context) for result, mark in zip(report.results, marks, strict=True)]
    return as_json(findings)


def _finding(result: Result, mark: str, context: Context) -> dict[str, Any]:
    found = result.finding
    span, where = context.in_file(found.path, found.span)
    return {
        "description": f"{where}{found.message}" + (f". {found.help}" if found.help else ""),
        "check_name": f"{found.rule.code} {found.rule.name}",
        "fingerprint": mark,
        "severity": _LEVELS[found.severity],
        "location": {"path": context.relative(found.path), "lines": {"begin": span.line, "end": span.end_line}},
    }
