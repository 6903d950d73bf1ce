"""GitLab's code quality report: a list of findings, each with a fingerprint that tells it from all others."""

from __future__ import annotations

from typing import Any

from gpulint.finding import Finding, Severity
from gpulint.fingerprint import fingerprints
from gpulint.impact import Level
from gpulint.report import Report, Result
from gpulint.reporters import Context, as_json
from gpulint.reporters.impact_text import is_known

_LEVELS = {Severity.ERROR: "critical", Severity.WARNING: "major", Severity.INFO: "info"}
_COSTS = {Level.HIGH: "critical", Level.MEDIUM: "major", Level.LOW: "minor"}
_WORST = (Severity.ERROR, Level.HIGH)


def render(report: Report, context: Context) -> str:
    """The report; GitLab shows only the first of findings that share a fingerprint, so none do."""
    marks = fingerprints([result.finding for result in report.results], context.project)
    findings = [_finding(result, mark, context) for result, mark in zip(report.results, marks, strict=True)]
    return as_json(findings)


def _severity(found: Finding) -> str:
    """GitLab sorts by it, so that what a finding costs decides where that is known."""
    if not is_known(found.impact):
        return _LEVELS[found.severity]
    return "blocker" if (found.severity, found.impact.level) == _WORST else _COSTS[found.impact.level]


def _finding(result: Result, mark: str, context: Context) -> dict[str, Any]:
    found = result.finding
    span, where = context.in_file(found.path, found.span)
    return {
        "description": f"{where}{found.message}" + (f". {found.help}" if found.help else ""),
        "check_name": f"{found.rule.code} {found.rule.name}",
        "fingerprint": mark,
        "severity": _severity(found),
        "location": {"path": context.relative(found.path), "lines": {"begin": span.line, "end": span.end_line}},
    }
