"""Prepares a source's tables, and has the definitions answered batch by batch.

All questions are Ibis expressions. On DuckDB, samples are sorted once into a file of their own, and asked about in
batches of whole jobs, so that memory does not grow with the samples; Spark is given everything at once.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ibis

from gpulint_audit.answers import Answers, Row, ask, rows
from gpulint_audit.cells import MEASURES
from gpulint_audit.errors import AuditError
from gpulint_audit.parameters import Parameters
from gpulint_audit.tables import SERIES, Job, Tables

BATCH = 2_000_000
"""Samples of one batch, unless one job has more."""
MEMORY = "1GB"
"""Of DuckDB, by default."""
_OF_A_THREAD = 250e6
"""Bytes that DuckDB needs at least for each thread."""
_UNITS = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "KI": 2.0**10, "MI": 2.0**20, "GI": 2.0**30, "TI": 2.0**40, "": 1.0}


@contextlib.contextmanager
def duckdb(memory: str | None = None) -> Iterator[Any]:
    """A DuckDB that works in a temporary folder, with ``memory`` such as 1500MB (None: ``MEMORY``). Raises
    AuditError."""
    size = memory or MEMORY
    matched = re.fullmatch(r"([0-9.]+) ?(|[KMGT]I?)B?", size.strip().upper())
    if matched is None:
        raise AuditError(f"--memory: {size!r} is no size such as 1500MB")
    threads = int(float(matched[1]) * _UNITS[matched[2]] / _OF_A_THREAD)
    with tempfile.TemporaryDirectory(prefix="gpulint-audit-", ignore_cleanup_errors=True) as folder:
        settings = {
            "temp_directory": str(Path(folder) / "spill"),
            "preserve_insertion_order": True,
            "memory_limit": size,
            "threads": min(max(threads, 1), os.cpu_count() or 1),
        }
        connection = ibis.duckdb.connect(Path(folder) / "samples.duckdb", **settings)
        try:
            yield connection
        finally:
            connection.disconnect()


@dataclass
class Prepared:
    """Samples by job, ready to be asked about; without ``samples``, no job has any."""

    samples: Any = None
    """Ibis table with ``SERIES``, timestamp and measures."""
    keys: Any = None
    """The jobs' lives: job_id, life_start, life_end, gpus."""
    places: Any = None
    """Every GPU of every job: job_id, node, gpu, series."""
    columns: set[str] = field(default_factory=set)
    """Measures that the samples have."""
    counts: list[Row] = field(default_factory=list)
    """Samples by job: job_id, n."""
    orphans: int = 0
    """Samples whose job is not in the table of jobs."""
    batched: bool = True

    @property
    def count(self) -> int:
        """Samples of known jobs."""
        return sum(row["n"] for row in self.counts)

    def answers(self, parameters: Parameters, batch: int = BATCH) -> Iterator[Answers]:
        """Answers about all jobs that have samples, in batches by ascending number."""
        if self.samples is None:
            return
        if not self.batched:
            yield ask(self.samples, self.keys, self.places, self.columns, parameters)
            return
        for first, last in _batches(self.counts, batch):
            samples, places = (table.filter(table.job_id.between(first, last)) for table in (self.samples, self.places))
            yield ask(samples, self.keys, places, self.columns, parameters)


def prepare(connection: Any, tables: Tables, parameters: Parameters) -> Prepared:
    """Number jobs and GPUs, and bring each job's samples together."""
    import pyarrow as pa

    lived = lives(tables.jobs, parameters)
    if tables.samples is None or not lived:
        return Prepared()
    schema = pa.schema(
        [("job_id", pa.int64()), ("job", pa.string()), ("life_start", pa.float64()), ("life_end", pa.float64()),
         ("gpus", pa.float64())]
    )  # fmt: skip
    keys = connection.create_table("audit_jobs", pa.Table.from_pylist(lived, schema=schema), overwrite=True)
    embedded = connection.name == "duckdb"
    named = _named(tables.samples, keys, parameters)
    places = connection.create_table("audit_places", _places(named), overwrite=True)
    others = [name for name in named.columns if name not in ("node", "gpu")]
    samples = named.view().inner_join(places, ["job_id", "node", "gpu"]).select(*others, "series")
    if embedded:
        # Only answers about one job need its samples together; which order they have within it does not matter.
        samples = connection.create_table("audit_samples", samples.order_by("job_id"), overwrite=True)
    columns = _present(samples)
    samples = samples.select(*SERIES, "timestamp", *(name for name in MEASURES if name in columns))
    counts = rows(samples.group_by("job_id").aggregate(n=samples.count()))
    (everything,) = rows(tables.samples.aggregate(n=tables.samples.count()))
    orphans = max(0, everything["n"] - sum(row["n"] for row in counts))
    return Prepared(samples, keys.drop("job"), places, columns, counts, orphans, embedded)


def lives(jobs: list[Job], parameters: Parameters) -> list[Row]:
    """The jobs' lives, cut to the period; a job without an end lives on."""
    found = []
    for number, job in enumerate(jobs):
        start = max(job.start, parameters.since)
        end = min(job.end if job.end is not None else float("inf"), parameters.until)
        if end > start:
            found.append({"job_id": number, "job": job.job, "life_start": start, "life_end": end, "gpus": job.gpus})
    return found


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
    (row,) = rows(samples.aggregate(**{name: samples[name].count() for name in names}))
    return {name for name in names if row[name] or name == "gpu_utilization"}


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
