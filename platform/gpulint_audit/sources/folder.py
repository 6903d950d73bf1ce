"""A folder with a table of jobs and a table of samples, as CSV or Parquet."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpulint_audit.errors import AuditError, Problems
from gpulint_audit.sources import columns, times
from gpulint_audit.sources.jobrows import MOST_OVERLAPS, RowReader, overlaps
from gpulint_audit.sources.samples import Reader
from gpulint_audit.tables import Job, Tables

_SUFFIXES = (".csv", ".csv.gz", ".parquet", ".pq")


@dataclass(frozen=True)
class FolderOptions:
    """How to understand the files."""

    mapping: str | None = None
    timezone: str | None = None
    percent: tuple[str, ...] = ()
    """Ratios that the files have from 0 to 100."""


def load(connection: Any, folder: Path, options: FolderOptions, problems: Problems) -> Tables:
    """Jobs and samples of a folder. Jobs without a table are made up from the samples. Raises AuditError."""
    mapping = columns.read(options.mapping) if options.mapping else columns.Mapping()
    job_files = _files(folder, "jobs", mapping.jobs)
    sample_files = _files(folder, "samples", mapping.samples)
    if mapping.samples is not None and not sample_files and (mapping.jobs is None or not job_files):
        raise AuditError(f"{folder}: no files {', '.join(mapping.samples.files)}, which {mapping.name} maps")
    if not job_files and not sample_files:
        raise AuditError(f"{folder}: neither jobs nor samples: expected jobs.csv and samples.csv, or .parquet")
    zone = times.zone(options.timezone)
    of_mapping = times.zone(mapping.jobs.timezone if mapping.jobs else None)
    jobs: list[Job] = []
    for path in job_files:
        reader = RowReader(str(path), mapping.jobs, zone or of_mapping, problems)
        jobs += reader.jobs(_rows(path, mapping.jobs))
    samples, known = None, None
    if sample_files:
        known = Reader(connection, mapping.samples, options.timezone, options.percent, problems)
        samples = known.table(sample_files)
    sources = [str(path) for path in [*job_files, *sample_files]]
    if not job_files:
        jobs = from_samples(samples)
        problems.notes.append(f"{folder}: no table of jobs: each job lives from its first to its last sample")
    tables = Tables(jobs, samples, sources)
    if known is not None:
        tables.first_duplicate = known.first_duplicate
        _warn_of_overlaps(jobs, samples, problems)
    return tables


def from_samples(samples: Any) -> list[Job]:
    """Jobs made up from their samples: one without an end lives until its last sample."""
    spans = samples.group_by("job").aggregate(start=samples.timestamp.min())
    return [Job(row["job"], row["start"]) for row in spans.order_by("job").to_pyarrow().to_pylist()]


def _files(folder: Path, stem: str, mapping: columns.TableMapping | None) -> list[Path]:
    if mapping is not None:
        return sorted({path for glob in mapping.files for path in folder.glob(glob) if path.is_file()})
    for suffix in _SUFFIXES:
        if (path := folder / f"{stem}{suffix}").is_file():
            return [path]
    inside = [path for path in sorted((folder / stem).glob("*")) if path.name.endswith(_SUFFIXES)]
    return inside or [path for path in sorted(folder.glob(f"{stem}-*")) if path.name.endswith(_SUFFIXES)]


def _rows(path: Path, mapping: columns.TableMapping | None) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Rows with their line, or number in a Parquet file."""
    if path.name.endswith((".parquet", ".pq")):
        yield from enumerate(_parquet_rows(path), 1)
        return
    names = list(mapping.names) if mapping is not None and not mapping.header else None
    try:
        with _opened(path) as file:
            reader = csv.DictReader(file, names, strict=True)
            for row in reader:
                if None in row or None in row.values():
                    much = "more" if None in row else "fewer"
                    raise AuditError(f"{path}:{reader.line_num}: {much} values than the header has columns")
                yield reader.line_num, {str(name).strip(): value for name, value in row.items()}
            if reader.fieldnames is None:
                raise AuditError(f"{path}: empty file")
    except (csv.Error, UnicodeDecodeError, OSError, EOFError) as error:
        raise AuditError(f"{path}: cannot read this CSV ({error})") from error


def _opened(path: Path) -> io.TextIOWrapper:
    if path.name.endswith(".gz"):
        return io.TextIOWrapper(gzip.GzipFile(path), encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _parquet_rows(path: Path) -> Iterable[Mapping[str, Any]]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise AuditError(f"{path}: not a whole Parquet file ({str(error).splitlines()[0]})") from error
    rows: list[Mapping[str, Any]] = table.to_pylist()
    return rows


def _warn_of_overlaps(jobs: list[Job], samples: Any, problems: Problems) -> None:
    if "node" not in samples.columns:
        return
    placed = samples.filter(samples.node.notnull() & (samples.node != "")).select("node", "gpu", "job").distinct()
    places: dict[tuple[str, str], list[str]] = {}
    for row in placed.to_pyarrow().to_pylist():
        places.setdefault((row["node"], row["gpu"]), []).append(row["job"])
    if not (found := overlaps(jobs, places)):
        return
    least = "at least " if len(found) == MOST_OVERLAPS else ""
    more = f" (and {least}{len(found) - 3} more)" if len(found) > 3 else ""
    problems.notes.append(
        f"{'; '.join(found[:3])}{more}; the time of a shared GPU counts once for each of its jobs"
    )  # fmt: skip
