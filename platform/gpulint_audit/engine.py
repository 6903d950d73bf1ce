"""Runs the definitions over a source's tables, batch by batch, and gathers what they answer.

All questions are Ibis expressions. On DuckDB, samples are sorted once into a file of their own, and asked about in
batches of whole jobs, so that memory does not grow with the samples; Spark is given everything at once.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ibis

from gpulint_audit.cells import MEASURES, cells, runs
from gpulint_audit.definitions import idle, phases, usage, variation
from gpulint_audit.parameters import Parameters
from gpulint_audit.tables import SERIES, Job, Tables

Row = dict[str, Any]
BATCH = 2_000_000
"""Samples of one batch, unless one job has more."""


@dataclass
class Answers:
    """What the definitions say, by the number of the job in ``jobs``."""

    jobs: list[Job]
    places: dict[int, tuple[str, str]] = field(default_factory=dict)
    """Node and GPU of each series."""
    series: dict[int, dict[tuple[str, str], Row]] = field(default_factory=lambda: defaultdict(dict))
    """By job, then (node, gpu)."""
    of_job: dict[int, Row] = field(default_factory=lambda: defaultdict(dict))
    losses: dict[int, list[Row]] = field(default_factory=lambda: defaultdict(list))
    """By job: day, cause, seen_s, lost_s, idle_s."""
    columns: set[str] = field(default_factory=set)
    """Measures that the samples have."""
    samples: int = 0
    orphans: int = 0
    """Samples whose job is not in the table of jobs."""
    outside: int = 0
    """Samples outside the life of their job, or outside the period."""


@contextlib.contextmanager
def duckdb(memory: str | None = None) -> Iterator[Any]:
    """A DuckDB that works in a temporary folder, with ``memory`` such as 1500MB (None: 80% of the machine's)."""
    with tempfile.TemporaryDirectory(prefix="gpulint-audit-", ignore_cleanup_errors=True) as folder:
        settings = {"temp_directory": str(Path(folder) / "spill"), "preserve_insertion_order": True}
        if memory is not None:
            settings["memory_limit"] = memory
        connection = ibis.duckdb.connect(Path(folder) / "samples.duckdb", **settings)
        try:
            yield connection
        finally:
            connection.disconnect()


def lives(jobs: list[Job], parameters: Parameters) -> list[Row]:
    """The jobs' lives, cut to the period; a job without an end lives on."""
    rows = []
    for number, job in enumerate(jobs):
        start = max(job.start, parameters.since)
        end = min(job.end if job.end is not None else float("inf"), parameters.until)
        if end > start:
            rows.append({"job_id": number, "job": job.job, "life_start": start, "life_end": end, "gpus": job.gpus})
    return rows


def answer(connection: Any, tables: Tables, parameters: Parameters, *, batch: int = BATCH) -> Answers:
    """Ask every definition about every job."""
    import pyarrow as pa

    answers = Answers(tables.jobs)
    schema = pa.schema(
        [("job_id", pa.int64()), ("job", pa.string()), ("life_start", pa.float64()), ("life_end", pa.float64()),
         ("gpus", pa.float64())]
    )  # fmt: skip
    rows = lives(tables.jobs, parameters)
    if tables.samples is None or not rows:
        return answers
    keys = connection.create_table("audit_jobs", pa.Table.from_pylist(rows, schema=schema), overwrite=True)
    embedded = connection.name == "duckdb"
    named = _named(tables.samples, keys, parameters)
    places = connection.create_table("audit_places", _places(named), overwrite=True)
    others = [name for name in named.columns if name not in ("node", "gpu")]
    numbered = named.view().inner_join(places, ["job_id", "node", "gpu"]).select(*others, "series")
    if embedded:
        # Only answers about one job need its samples together; which order they have within it does not matter.
        samples = connection.create_table("audit_samples", numbered.order_by("job_id"), overwrite=True)
    else:
        samples = numbered
    answers.places = {row["series"]: (row["node"], row["gpu"]) for row in _rows(places)}
    answers.columns = _present(samples)
    samples = samples.select(*SERIES, "timestamp", *(name for name in MEASURES if name in answers.columns))
    counts = _rows(samples.group_by("job_id").aggregate(n=samples.count()))
    answers.samples = sum(row["n"] for row in counts)
    _count_others(answers, tables.samples, keys)
    for first, last in _batches(counts, batch) if embedded else [(0, len(tables.jobs))]:
        within = samples.filter(samples.job_id.between(first, last)) if embedded else samples
        _answer_batch(answers, within, keys.drop("job"), places, parameters)
    return answers


def _places(named: Any) -> Any:
    """Every GPU of every job, with a number: strings would make all later questions slow."""
    places = named.select("job_id", "node", "gpu").distinct()
    number = ibis.row_number().over(ibis.window(order_by=["job_id", "node", "gpu"]))
    return places.mutate(series=number.cast("int64"))


def _named(samples: Any, keys: Any, parameters: Parameters) -> Any:
    """Samples with the number of their job, and node and gpu that are never null."""
    names = [name for name in MEASURES if name in samples.columns]
    job = keys.select("job_id", "job")
    joined = samples.inner_join(job, "job")
    node = joined.node.fill_null("") if "node" in samples.columns else ibis.literal("")
    numbered = joined.select(
        "job_id",
        node=node,
        gpu=joined.gpu.fill_null(""),
        timestamp=joined.timestamp,
        **{name: joined[name] for name in names},
    )
    if parameters.gpu_memory_bytes is not None and "gpu_memory_bytes" in names:
        given = ibis.literal(parameters.gpu_memory_bytes)
        known = numbered.gpu_memory_total_bytes.fill_null(given) if "gpu_memory_total_bytes" in names else given
        numbered = numbered.mutate(gpu_memory_total_bytes=known)
    return numbered


def _present(samples: Any) -> set[str]:
    names = [name for name in MEASURES if name in samples.columns]
    (row,) = _rows(samples.aggregate(**{name: samples[name].count() for name in names}))
    return {name for name in names if row[name] or name == "gpu_utilization"}


def _count_others(answers: Answers, samples: Any, keys: Any) -> None:
    (row,) = _rows(samples.aggregate(n=samples.count()))
    answers.orphans = max(0, row["n"] - answers.samples)


def _batches(counts: list[Row], size: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    total, first = 0, None
    for row in sorted(counts, key=lambda row: row["job_id"]):
        if first is None:
            first, total = row["job_id"], 0
        total += row["n"]
        last = row["job_id"]
        if total >= size:
            found.append((first, last))
            first = None
    if first is not None:
        found.append((first, last))
    return found


def _answer_batch(answers: Answers, samples: Any, keys: Any, places: Any, parameters: Parameters) -> None:
    with contextlib.ExitStack() as kept:
        found = kept.enter_context(runs(cells(samples, keys, parameters), parameters).cache())
        used = kept.enter_context(usage.usage(found).cache())
        active = kept.enter_context(usage.bounds(found).cache())
        weighed = kept.enter_context(usage.weights(used, keys, places).cache())
        _ask(answers, found, used, active, weighed, parameters)


def _ask(answers: Answers, found: Any, used: Any, active: Any, weighed: Any, parameters: Parameters) -> None:
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
    _keep_jobs(answers, active)
    _keep_jobs(answers, idle.ends(found, active))
    if columns & {"power_w", "counted_j"}:
        _keep_jobs(answers, usage.energy(found))
    for row in _rows(idle.losses(found, used, active, weighed, parameters)):
        answers.losses[row["job_id"]].append(row)


def _rows(expression: Any) -> list[Row]:
    rows: list[Row] = expression.to_pyarrow().to_pylist()
    return rows


def _keep_series(answers: Answers, expression: Any, prefix: str = "") -> None:
    for row in _rows(expression):
        kept = answers.series[row["job_id"]].setdefault(answers.places[row["series"]], {})
        kept.update({f"{prefix}{name}": value for name, value in row.items() if name not in SERIES})


def _keep_jobs(answers: Answers, expression: Any) -> None:
    for row in _rows(expression):
        answers.of_job[row["job_id"]].update({name: value for name, value in row.items() if name != "job_id"})
