"""reviewdog's diagnostic format (rdjson), which comments on pull requests and suggests fixes there.

Columns count UTF-8 bytes from 1, and ends are exclusive:
https://github.com/reviewdog/reviewdog/blob/master/proto/rdf/reviewdog.proto
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from gpulint.edits import apply
from gpulint.finding import Severity
from gpulint.fix import Edit, Fix
from gpulint.report import Report, Result
from gpulint.reporters import Context, as_json
from gpulint.reporters.impact_text import impact_line
from gpulint.source import SourceText, Span

_SOURCE = {"name": "gpulint", "url": "https://github.com/gpulint/gpulint"}
_MAX_SUGGESTION = 10_000
"""Most characters that a suggestion replaces."""
_LEVELS = {Severity.ERROR: "ERROR", Severity.WARNING: "WARNING", Severity.INFO: "INFO"}


def render(report: Report, context: Context) -> str:
    """One DiagnosticResult."""
    diagnostics = [_diagnostic(result, context) for result in report.results]
    return as_json({"source": _SOURCE, "diagnostics": diagnostics})


def _diagnostic(result: Result, context: Context) -> dict[str, Any]:
    found = result.finding
    _, where = context.in_file(found.path, found.span)
    made: dict[str, Any] = {
        "message": "\n".join(filter(None, (f"{where}{found.message}", impact_line(found.impact), found.help))),
        "location": _location(found.path, found.span, context),
        "severity": _LEVELS[found.severity],
        "code": {"value": found.rule.code, "url": found.rule.url},
    }
    if isinstance(result.fix, Fix) and (suggestion := _suggestion(result.fix, found.path, context)) is not None:
        made["suggestions"] = [suggestion]
    if found.related:
        made["related_locations"] = [
            {"message": place.message, "location": _location(place.path, place.span, context)}
            for place in found.related
        ]
    return made


def _location(path: Path, span: Span, context: Context) -> dict[str, Any]:
    span, _ = context.in_file(path, span)
    return {"path": context.relative(path), "range": _range(span, context.source(path))}


def _suggestion(fix: Fix, path: Path, context: Context) -> dict[str, Any] | None:
    """All edits of a fix as one, since suggestions are taken one at a time; None if it reaches beyond the file, or
    over more of it than a review would show."""
    if not fix.edits or fix.files or any(edit.path != path for edit in fix.edits):
        return None
    edits = [context.edit_in_file(edit) for edit in fix.edits]
    first = min((edit.span.line, edit.span.column) for edit in edits)
    last = max((edit.span.end_line, edit.span.end_column) for edit in edits)
    source = context.source(path)
    above = max(first[0] - 2, 0)  # one line more, as the last line has no line ending of its own
    start, end = source.offset(above + 1, 1), source.offset(last[0] + 1, 1)
    if end - start > _MAX_SUGGESTION:
        return None
    fixed = apply(source.text[start:end], [_moved_up(edit, above) for edit in edits])
    before, after = source.offset(*first) - start, end - source.offset(*last)
    return {"range": _range(Span(*first, *last), source), "text": fixed[before : len(fixed) - after]}


def _moved_up(edit: Edit, lines: int) -> Edit:
    span = edit.span
    return replace(edit, span=replace(span, line=span.line - lines, end_line=span.end_line - lines))


def _range(span: Span, source: SourceText) -> dict[str, dict[str, int]]:
    return {
        "start": _position(source, span.line, span.column),
        "end": _position(source, span.end_line, span.end_column),
    }


def _position(source: SourceText, line: int, column: int) -> dict[str, int]:
    before = source.line(line)[: column - 1]
    # An end behind the line's text takes in the line break; beyond the text there is nothing to measure.
    beyond = column - 1 - len(before)
    return {"line": line, "column": len(before.encode("utf-8", "surrogatepass")) + beyond + 1}
