"""A JSON array of findings, the interface for other programs."""

from __future__ import annotations

from typing import Any

from gpulint.fix import Fix
from gpulint.impact import Impact
from gpulint.report import Report, Result
from gpulint.reporters import Context, as_json
from gpulint.source import Span


def render(report: Report, context: Context) -> str:
    """The findings; keys are described in the README. An empty list when there are none."""
    return as_json([finding(result, context) for result in report.results])


def finding(result: Result, context: Context) -> dict[str, Any]:
    """One finding with its fix."""
    found, rule = result.finding, result.finding.rule
    return {
        "code": rule.code,
        "name": rule.name,
        "category": rule.category.label,
        "dimension": str(rule.dimension),
        "severity": str(found.severity),
        "impact": _impact(found.impact),
        "message": found.message,
        "why": rule.why,
        "worth": rule.worth,
        "help": found.help,
        "path": context.relative(found.path),
        **_place(found.span),
        "fix": _fix(result.fix, context) if isinstance(result.fix, Fix) else None,
        "related": [
            {"path": context.relative(other.path), **_place(other.span), "message": other.message}
            for other in found.related
        ],
        "url": rule.url,
    }


def _impact(impact: Impact) -> dict[str, Any]:
    return {
        "level": str(impact.level),
        "basis": impact.basis,
        "gpu_share": impact.gpu_share,
        "gpu_hours": impact.gpu_hours,
    }


def _fix(fix: Fix, context: Context) -> dict[str, Any]:
    return {
        "safety": str(fix.safety),
        "description": fix.description,
        "edits": [{"path": context.relative(edit.path), **_place(edit.span), "text": edit.text} for edit in fix.edits],
        "files": [{"path": context.relative(new.path), "text": new.text} for new in fix.files],
    }


def _place(span: Span) -> dict[str, int | None]:
    return {
        "line": span.line,
        "column": span.column,
        "end_line": span.end_line,
        "end_column": span.end_column,
        "cell": span.cell,
    }
