"""Rows of a table of jobs, checked one by one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any
from zoneinfo import ZoneInfo

from gpulint_audit.errors import AuditError, Problems
from gpulint_audit.sources.columns import Column, TableMapping
from gpulint_audit.sources.times import seconds
from gpulint_audit.tables import JOB_COLUMNS, REQUIRED_OF_JOBS, Job

_NUMBERS = ("gpus",)
_TIMES = ("submit", "start", "end")
_SAID = 5
"""Rows with a problem that are named one by one."""
_NOTHING = {"", "nan", "none", "null", "unknown", "nat"}


class RowReader:
    """Turns rows of one file into jobs; those that are wrong are left out, each with its line in the problems."""

    def __init__(self, where: str, mapping: TableMapping | None, zone: ZoneInfo | None, problems: Problems) -> None:
        self._where, self._mapping, self._zone, self._problems = where, mapping, zone, problems
        self._refused = 0

    def jobs(self, rows: Iterable[tuple[int, Mapping[str, Any]]]) -> list[Job]:
        """Jobs of (line, row); rows without a start have not started and are left out as well. Raises AuditError if a
        column is missing."""
        found: dict[str, Job] = {}
        waiting = total = 0
        for line, row in rows:
            total += 1
            if total == 1:
                self._check_columns(row)
            try:
                job = self._job(line, row)
            except ValueError as error:
                self._refuse(line, str(error))
                continue
            if job is None:
                waiting += 1
            elif (known := found.get(job.job)) is None:
                found[job.job] = job
            elif known == job:
                self._problems.notes.append(f"{self._where}:{line}: job {job.job!r} is listed twice")
            else:
                self._refuse(line, f"job {job.job!r} is already defined differently")
        if waiting:
            self._problems.notes.append(f"{self._where}: {waiting} of {total} jobs have not started")
        if self._refused > _SAID:
            self._problems.missing.append(f"{self._where}: {self._refused} jobs in all were left out")
        return list(found.values())

    def _refuse(self, line: int, reason: str) -> None:
        self._refused += 1
        if self._refused <= _SAID:
            self._problems.missing.append(f"{self._where}:{line}: {reason}; this job is left out")

    def _check_columns(self, row: Mapping[str, Any]) -> None:
        if self._mapping is None:
            if missing := [name for name in REQUIRED_OF_JOBS if name not in row]:
                there = ", ".join(map(str, row))
                raise AuditError(f"{self._where}: no column {missing[0]!r}; it has {there} (see --mapping)")
            return
        for name, column in self._mapping.columns.items():
            for needed in [column.column, *column.sum, *column.product]:
                if needed is not None and needed not in row:
                    raise AuditError(f"{self._where}: no column {needed!r}, which the mapping uses for {name!r}")

    def _job(self, line: int, row: Mapping[str, Any]) -> Job | None:
        values = {name: self._value(name, line, row) for name in JOB_COLUMNS}
        if values["job"] is None:
            raise ValueError("the job has no name")
        if values["start"] is None:
            return None
        start, end, submit = values["start"], values["end"], values["submit"]
        if end is not None and end < start:
            raise ValueError(f"end {end:.15g} is before start {start:.15g}")
        if submit is not None and submit > start:
            raise ValueError(f"submit {submit:.15g} is after start {start:.15g}")
        if values["gpus"] is not None and (values["gpus"] < 0 or not math.isfinite(values["gpus"])):
            raise ValueError(f"gpus is {values['gpus']:g}")
        return Job(**{name: value for name, value in values.items() if value is not None})

    def _value(self, name: str, line: int, row: Mapping[str, Any]) -> Any:
        column = Column(name) if self._mapping is None else self._mapping.columns.get(name)
        if column is None:
            return None
        if column.row is not None:
            return f"{column.row}{line}"
        if column.sum:
            parts = [self._time(part, row.get(part)) for part in column.sum]
            return None if None in parts else sum(part for part in parts if part is not None)
        if column.product:
            return math.prod(float(row.get(part) or 0) for part in column.product) * column.scale
        raw = column.value if column.value is not None else row.get(column.column or "")
        if raw is None or str(raw).strip().lower() in _NOTHING:
            raw = column.default
        if raw is None:
            return None
        text = dict(column.map).get(str(raw), str(raw))
        if name in _TIMES:
            return self._time(name, text)
        if name in _NUMBERS:
            try:
                return float(text) * column.scale
            except ValueError:
                raise ValueError(f"{name} is {text!r}, which is not a number") from None
        return text.strip()

    def _time(self, name: str, value: Any) -> float | None:
        if value is None or str(value).strip().lower() in _NOTHING:
            return None
        try:
            return seconds(str(value), self._zone)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None


MOST_OVERLAPS = 1000


def overlaps(jobs: list[Job], places: Mapping[tuple[str, str], Iterable[str]]) -> list[str]:
    """Pairs of jobs that used one GPU at the same time, said in words, at most MOST_OVERLAPS: ``places`` are the jobs
    of each (node, gpu)."""
    lives = {job.job: (job.start, job.end if job.end is not None else math.inf) for job in jobs}
    pairs: dict[tuple[str, str], tuple[str, str]] = {}
    for place, names in places.items():
        running: list[tuple[float, str]] = []
        for name in sorted((name for name in names if name in lives), key=lambda name: lives[name]):
            start, end = lives[name]
            running = [(ends, other) for ends, other in running if ends > start]
            for _, other in running:
                pairs.setdefault((other, name), place)
            running.append((end, name))
        if len(pairs) >= MOST_OVERLAPS:
            break
    return [
        f"jobs {first!r} and {second!r} overlap on GPU {gpu} of node {node}"
        for (first, second), (node, gpu) in list(pairs.items())[:MOST_OVERLAPS]
    ]
