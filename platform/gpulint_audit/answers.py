"""What the definitions answer about one batch of jobs, before it is put together as verdicts."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from gpulint_audit.cells import cells, runs
from gpulint_audit.definitions import events, idle, phases, usage, variation
from gpulint_audit.parameters import Parameters
from gpulint_audit.tables import SERIES

Row = dict[str, Any]
Place = tuple[str, str]
"""Node and GPU."""


@dataclass
class Answers:
    """What the definitions say about some jobs, by the number of the job."""

    places: dict[int, Place]
    """Of each series."""
    columns: set[str]
    """Measures that the samples have."""
    series: dict[int, dict[Place, Row]] = field(default_factory=lambda: defaultdict(dict))
    of_job: dict[int, Row] = field(default_factory=lambda: defaultdict(dict))
    losses: dict[int, list[Row]] = field(default_factory=lambda: defaultdict(list))
    """By job: day, cause, seen_s, lost_s, idle_s."""


def rows(expression: Any) -> list[Row]:
    """All rows of an expression."""
    found: list[Row] = expression.to_pyarrow().to_pylist()
    return found


def ask(samples: Any, keys: Any, places: Any, columns: set[str], parameters: Parameters) -> Answers:
    """Every definition of these samples; ``keys`` and ``places`` are the tables of their jobs and GPUs."""
    answers = Answers({row["series"]: (row["node"], row["gpu"]) for row in rows(places)}, columns)
    with contextlib.ExitStack() as kept:
        found = kept.enter_context(runs(cells(samples, keys, parameters), parameters).cache())
        used = kept.enter_context(usage.usage(found).cache())
        active = kept.enter_context(usage.bounds(found).cache())
        weighed = kept.enter_context(usage.weights(used, keys, places).cache())
        _ask_series(answers, found, used, weighed, parameters)
        _ask_jobs(answers, found, active, parameters)
        for row in rows(idle.losses(found, used, active, weighed, parameters)):
            answers.losses[row["job_id"]].append(row)
    return answers


def _ask_series(answers: Answers, found: Any, used: Any, weighed: Any, parameters: Parameters) -> None:
    columns = set(found.columns)
    _keep_series(answers, used)
    _keep_series(answers, weighed)
    _keep_series(answers, idle.slot_sums(idle.slots(found, parameters, "idle")), "idle_")
    _keep_series(answers, idle.recurrence(found))
    _keep_series(answers, variation.fluctuation(found, parameters))
    _keep_series(answers, variation.drops(found, parameters))
    if "cpu_utilization" in columns:
        _keep_series(answers, variation.fluctuation(found, parameters, "cpu_utilization"), "cpu_")
    if "empty" in columns:
        _keep_series(answers, idle.slot_sums(idle.slots(found, parameters, "empty")), "empty_")
        _keep_series(answers, phases.memory_levels(found, parameters))
    if {"gpu_memory_bytes", "gpu_memory_total_bytes"} <= columns:
        for sums in phases.stable_phases(found, parameters):
            _keep_series(answers, sums)
    if "throttle_reasons" in columns:
        _keep_series(answers, events.throttled(found))


def _ask_jobs(answers: Answers, found: Any, active: Any, parameters: Parameters) -> None:
    _keep_jobs(answers, active)
    _keep_jobs(answers, idle.ends(found, active))
    if set(found.columns) & {"power_w", "counted_j"}:
        _keep_jobs(answers, usage.energy(found))
    _keep_jobs(answers, variation.ranks(found, parameters))
    if "xid" in found.columns:
        for row in rows(events.errors(found)):
            answers.of_job[row["job_id"]].setdefault("xid_errors", []).append(row["xid"])


def _keep_series(answers: Answers, expression: Any, prefix: str = "") -> None:
    for row in rows(expression):
        kept = answers.series[row["job_id"]].setdefault(answers.places[row["series"]], {})
        kept.update({f"{prefix}{name}": value for name, value in row.items() if name not in SERIES})


def _keep_jobs(answers: Answers, expression: Any) -> None:
    for row in rows(expression):
        answers.of_job[row["job_id"]].update({name: value for name, value in row.items() if name != "job_id"})
