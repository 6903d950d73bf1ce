"""One audit: from sources to verdicts and sums."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from gpulint_audit import engine, pseudonyms
from gpulint_audit.errors import AuditError, Problems
from gpulint_audit.parameters import Parameters
from gpulint_audit.tables import Tables
from gpulint_audit.totals import Prices, grouped, heat_map, totals
from gpulint_audit.verdicts import Doubles, Verdict, verdicts

_HOT = 0.01
"""Share of a job's GPU time with clocks lowered by heat that is worth a note."""


@dataclass
class Audit:
    """What all reports are made from."""

    verdicts: list[Verdict]
    parameters: Parameters
    prices: Prices
    problems: Problems
    sources: list[str] = field(default_factory=list)
    samples: int = 0
    joined: list[Any] = field(default_factory=list)
    """Worst jobs with the findings in their code (:mod:`gpulint_audit.join`)."""
    baseline: dict[str, Any] | None = None
    """Comparison with an earlier period (:mod:`gpulint_audit.comparison`)."""

    @property
    def totals(self) -> dict[str, Any]:
        return totals(self.verdicts, self.parameters, self.prices)

    def groups(self, by: str) -> list[dict[str, Any]]:
        return grouped(self.verdicts, by, self.prices)

    def heat_map(self) -> dict[str, dict[str, tuple[float, float]]]:
        return heat_map(self.verdicts)

    def worst(self, count: int) -> list[Verdict]:
        """Jobs with the most wasted GPU time; none without waste."""
        return [verdict for verdict in self.ranked(count) if verdict.wasted_s > 0]

    def ranked(self, count: int) -> list[Verdict]:
        """Jobs with samples, those with the most wasted GPU time first, then those that use least of theirs."""
        seen = [verdict for verdict in self.verdicts if verdict.utilization is not None]
        return sorted(seen, key=lambda v: (-v.wasted_s, -sum(v.losses.values()), v.job.job))[:count]


def audit(
    connection: Any,
    tables: Tables,
    problems: Problems,
    parameters: Parameters,
    prices: Prices,
    *,
    pseudonym_key: bytes | None = None,
) -> Audit:
    """Answer all definitions for all jobs. Raises AuditError if there is nothing to say."""
    if not tables.jobs:
        raise AuditError(f"no jobs in {', '.join(tables.sources) or 'the source'}")
    prepared = engine.prepare(connection, tables, parameters)
    found, doubles = verdicts(tables.jobs, prepared.answers(parameters), parameters)
    _report_samples(prepared.orphans, doubles, tables, problems, parameters)
    if not found:
        raise AuditError("no job lived in this period; check --since and --until")
    sources = tables.sources
    if pseudonym_key is not None:
        hide = pseudonyms.Pseudonyms(pseudonym_key, (job.user for job in tables.jobs))
        found = [replace(verdict, job=hide.job(verdict.job)) for verdict in found]
        sources = [hide.text(source) for source in sources]
        problems.missing[:] = [hide.text(line) for line in problems.missing]
        problems.notes[:] = [hide.text(line) for line in problems.notes]
    _report_events(found, problems)
    return Audit(found, parameters, prices, problems, sources, prepared.count)


def _report_samples(orphans: int, doubles: Doubles, tables: Tables, problems: Problems, parameters: Parameters) -> None:
    bounded = parameters.since > float("-inf") or parameters.until < float("inf")
    if orphans and not bounded:
        problems.notes.append(f"{_samples(orphans)} of jobs that are not in the table of jobs are left out")
    double, conflicts = doubles.count, doubles.conflicts
    if not double:
        return
    first = tables.first_duplicate()
    text = f"{first + ': ' if first else ''}{_samples(double)} of a GPU at a time that has one already"
    if conflicts:
        problems.missing.append(
            f"{text}, {conflicts} with another utilization: the highest counts"
            " (do jobs span nodes without a column node?)"
        )
    else:
        problems.notes.append(f"{text}: counted once")


def _report_events(found: list[Verdict], problems: Problems) -> None:
    """Jobs whose GPUs had errors or were too hot: what is slow there is not their code."""
    failing = [(v.job.job, ", ".join(map(str, v.facts["xid_errors"]))) for v in found if v.facts["xid_errors"]]
    if failing:
        problems.notes.append(f"jobs on GPUs with XID errors: {_first(f'{job} ({codes})' for job, codes in failing)}")
    hot = [v for v in found if (v.facts["throttled_seconds"] or {}).get("thermal", 0.0) > _HOT * v.gpu_seen_s]
    if hot:
        shares = (f"{v.job.job} ({v.facts['throttled_seconds']['thermal'] / v.gpu_seen_s:.0%})" for v in hot)
        problems.notes.append(f"jobs on GPUs slowed down by heat, with the share of their GPU time: {_first(shares)}")


def _first(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - 5} more" if len(every) > 5 else ""
    return f"{', '.join(every[:5])}{more}"


def _samples(count: int) -> str:
    return "1 sample" if count == 1 else f"{count} samples"
