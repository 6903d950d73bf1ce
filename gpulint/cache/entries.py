"""A report as JSON, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpulint.deferred import Deferred
from gpulint.finding import Finding, Place, Problem, Severity
from gpulint.fix import Declined, Edit, Fix, NewFile, Safety
from gpulint.impact import Cost, Impact, Level
from gpulint.rule import Dimension, Evidence, Kind, Rule, Scope, category
from gpulint.source import Span

if TYPE_CHECKING:
    from gpulint.report import JobSummary, Report


def entry_of(report: Report, rules: Sequence[Rule]) -> dict[str, Any]:
    """A report and the rules that ran, fit for JSON."""
    return {
        "rules": [_rule_out(rule) for rule in rules],
        "extra": [_rule_out(rule) for rule in _others(report, rules)],
    } | findings_of(report)


def findings_of(report: Report) -> dict[str, Any]:
    """A report alone, fit for JSON."""
    return {
        "results": [_result_out(result) for result in report.results],
        "problems": [
            [str(p.path), p.message, p.line, p.column, p.is_error, p.cell, p.is_warning] for p in report.problems
        ],
        "jobs": [_job_out(job) for job in report.jobs],
    }


def _others(report: Report, rules: Sequence[Rule]) -> list[Rule]:
    """Rules of findings that are none of those that ran (an unused suppression)."""
    return list({r.finding.rule.code: r.finding.rule for r in report.results if r.finding.rule not in rules}.values())


def _span_out(span: Span) -> list[int | None]:
    return [span.line, span.column, span.end_line, span.end_column, span.cell]


def _place_out(place: Place) -> list[Any]:
    return [str(place.path), _span_out(place.span), place.message]


def _place(made: Sequence[Any]) -> Place:
    path, span, message = made
    return Place(Path(path), Span(*span), message)


def _job_out(job: JobSummary) -> list[Any]:
    programs, files = [*map(str, job.programs)], [*map(str, job.files)]
    return [_place_out(job.place), job.name, job.gpus, programs, files, job.evaluates]


def _job(made: Sequence[Any]) -> JobSummary:
    from gpulint.report import JobSummary

    place, name, gpus, programs, files, evaluates = made
    return JobSummary(_place(place), name, gpus, tuple(map(Path, programs)), tuple(map(Path, files)), evaluates)


def _impact(made: Sequence[Any]) -> Impact:
    level, basis, share, hours, own, small = made
    return Impact(Level(level), basis, share and tuple(share), hours and tuple(hours), own, small)


def _rule_out(rule: Rule) -> dict[str, Any]:
    return {
        "code": rule.code,
        "name": rule.name,
        "category": rule.category.name,
        "dimension": rule.dimension.value,
        "severity": rule.severity.value,
        "kinds": sorted(kind.value for kind in rule.kinds),
        "summary": rule.summary,
        "why": rule.why,
        "evidence": [[evidence.value, evidence.source] for evidence in rule.evidence],
        "scope": rule.scope.value,
        "fix": rule.fix.value,
        "cost": rule.cost and rule.cost.kind,  # the impact is assessed, and findings are only folded by the kind
        "default": rule.default,
        "bad": rule.bad,
        "good": rule.good,
        "since": rule.since,
        "references": rule.references,
        "former_names": rule.former_names,
        "docs_url": rule.docs_url,
        "module": rule.check.__module__,
    }


def _rule(made: dict[str, Any]) -> Rule:
    fields = {
        **made,
        "category": category(made["category"]),
        "dimension": Dimension(made["dimension"]),
        "severity": Severity(made["severity"]),
        "kinds": frozenset(map(Kind, made["kinds"])),
        "evidence": tuple(Evidence(*parts) for parts in made["evidence"]),
        "scope": Scope(made["scope"]),
        "fix": Safety(made["fix"]),
        "cost": Cost(made["cost"]) if made["cost"] is not None else None,
        "references": tuple(made["references"]),
        "former_names": tuple(made["former_names"]),
    }
    # It is imported for its documentation alone.
    check = Deferred(fields.pop("module"), "RULE.check")
    return Rule(**fields, check=check)


def _result_out(result: Any) -> dict[str, Any]:
    found, fix, impact = result.finding, result.fix, result.finding.impact
    made: dict[str, Any] = {
        "rule": found.rule.code,
        "path": str(found.path),
        "span": _span_out(found.span),
        "message": found.message,
        "help": found.help,
        "severity": found.severity.value,
        "related": [_place_out(place) for place in found.related],
        "impact": [impact.level.value, impact.basis, impact.gpu_share, impact.gpu_hours, impact.own, impact.small],
    }
    if found.unreached:
        made["unreached"] = [str(path) for path in found.unreached]
    if found.cause is not None:
        made["cause"] = _place_out(found.cause)
    if isinstance(fix, Declined):
        made["declined"] = fix.reason
    elif isinstance(fix, Fix):
        made["fix"] = {
            "description": fix.description,
            "safety": fix.safety.value,
            "edits": [[str(edit.path), _span_out(edit.span), edit.text] for edit in fix.edits],
            "files": [[str(file.path), file.text] for file in fix.files],
        }
    return made


def report_of(entry: dict[str, Any]) -> tuple[Report, tuple[Rule, ...]]:
    """The report and the rules of an entry."""
    ran = tuple(map(_rule, entry["rules"]))
    return report_in(entry, {rule.code: rule for rule in (*ran, *map(_rule, entry["extra"]))}), ran


def report_in(entry: dict[str, Any], rules: Mapping[str, Rule]) -> Report:
    """The report of an entry, given the rules by code."""
    from gpulint.report import Report, Result

    results = []
    for made in entry["results"]:
        fix: Fix | Declined | None = None
        if "declined" in made:
            fix = Declined(made["declined"])
        elif "fix" in made:
            parts = made["fix"]
            edits = tuple(Edit(Path(path), Span(*span), text) for path, span, text in parts["edits"])
            files = tuple(NewFile(Path(path), text) for path, text in parts["files"])
            fix = Fix(parts["description"], Safety(parts["safety"]), edits, files)
        finding = Finding(
            rules[made["rule"]],
            Path(made["path"]),
            Span(*made["span"]),
            made["message"],
            made["help"],
            Severity(made["severity"]),
            None,
            tuple(map(_place, made["related"])),
            _impact(made["impact"]),
            unreached=tuple(map(Path, made.get("unreached", ()))),
            cause=_place(made["cause"]) if "cause" in made else None,
        )
        results.append(Result(finding, fix))
    problems = [Problem(Path(path), *rest) for path, *rest in entry["problems"]]
    return Report(results, problems, jobs=[*map(_job, entry["jobs"])])
