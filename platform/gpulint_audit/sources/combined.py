"""Several sources as one: jobs of the accounting with samples of the monitoring."""

from __future__ import annotations

import functools
from typing import Any

import ibis

from gpulint_audit.errors import Problems
from gpulint_audit.tables import SAMPLE_COLUMNS, Job, Tables


def combine(found: list[Tables], problems: Problems) -> Tables:
    """All jobs and samples. Of a job in several sources, the first that has a request or an end counts, filled up by
    the others."""
    jobs: dict[str, Job] = {}
    for tables in found:
        for job in tables.jobs:
            jobs[job.job] = _filled(jobs[job.job], job) if job.job in jobs else job
    samples = [tables.samples for tables in found if tables.samples is not None]
    return Tables(
        list(jobs.values()), union(samples) if samples else None, [name for tables in found for name in tables.sources]
    )  # fmt: skip


def union(tables: list[Any]) -> Any:
    """All rows, with the columns that any of them has."""
    shared = [name for name in SAMPLE_COLUMNS if any(name in table.columns for table in tables)]
    filled = [
        table.select(
            **{name: table[name] if name in table.columns else ibis.null(SAMPLE_COLUMNS[name]) for name in shared}
        )
        for table in tables
    ]
    return functools.reduce(lambda left, right: left.union(right), filled)


def _filled(first: Job, second: Job) -> Job:
    """A job with what only one of two sources says of it; accounting, which knows ends, goes before monitoring."""
    if first.end is None and second.end is not None:
        first, second = second, first
    known = {name: getattr(first, name) for name in Job.__slots__}
    return Job(**{name: getattr(second, name) if value in (None, "") else value for name, value in known.items()})
