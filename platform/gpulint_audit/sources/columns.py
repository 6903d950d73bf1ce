"""Mapping files: TOML that says which columns of which file are the generic tables' columns.

    [samples]
    files = "usage/*.csv"              # a glob, below the folder
    timezone = "UTC"                   # of times without an offset
    [samples.columns]
    timestamp = "time"                 # the column, as it is
    gpu_utilization = { column = "duty", scale = 0.01 }
    gpu = { value = "0" }              # the same for every row
    [jobs]
    files = "jobs.csv"
    [jobs.columns]
    start = "started"
    end = { sum = ["started", "duration"] }

A column may also have ``map = { old = "new" }`` and, for jobs, ``default``; jobs also know ``product = ["a", "b"]``,
and ``job = { row = "job-" }``, which counts rows.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from gpulint_audit.errors import AuditError
from gpulint_audit.tables import JOB_COLUMNS, SAMPLE_COLUMNS

_SOURCES = ("column", "value", "sum", "product", "row")
_KEYS = {*_SOURCES, "scale", "map", "default"}


@dataclass(frozen=True)
class Column:
    """Where the values of one column come from; exactly one of column, value, sum, product and row is given."""

    column: str | None = None
    value: str | None = None
    sum: tuple[str, ...] = ()
    product: tuple[str, ...] = ()
    scale: float = 1.0
    map: tuple[tuple[str, str], ...] = ()
    row: str | None = None
    default: str | None = None


@dataclass(frozen=True)
class TableMapping:
    """Files and columns of one generic table."""

    files: tuple[str, ...]
    columns: dict[str, Column]
    timezone: str | None = None
    header: bool = True
    names: tuple[str, ...] = ()
    """Names of the columns of files without a header."""


@dataclass(frozen=True)
class Mapping:
    """Both tables; ``jobs`` is None where jobs are made up from the samples, and the other way round."""

    samples: TableMapping | None = None
    jobs: TableMapping | None = None
    name: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


def shipped() -> list[str]:
    """Names of the mappings that come with gpulint."""
    folder = resources.files("gpulint_audit") / "mappings"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def read(name: str) -> Mapping:
    """A mapping by the path of its file, or by its name if gpulint ships it. Raises AuditError."""
    if name in shipped():
        text = (resources.files("gpulint_audit") / "mappings" / f"{name}.toml").read_text(encoding="utf-8")
        return parse(text, name)
    try:
        text = Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        known = ", ".join(shipped())
        raise AuditError(f"{name}: cannot read this mapping ({_reason(error)}); gpulint ships {known}") from error
    return parse(text, name)


def parse(text: str, name: str) -> Mapping:
    """A mapping from TOML. Raises AuditError that names the key."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise AuditError(f"{name}: {error}") from error
    tables = {
        key: _table(name, key, data[key], tuple(SAMPLE_COLUMNS) if key == "samples" else tuple(JOB_COLUMNS))
        for key in ("samples", "jobs")
        if key in data
    }
    if not tables or (unknown := data.keys() - {"samples", "jobs", "about"}):
        what = f"unknown table [{min(unknown)}]" if tables else "has neither [samples] nor [jobs]"
        raise AuditError(f"{name}: {what}")
    return Mapping(tables.get("samples"), tables.get("jobs"), name, data.get("about", {}))


def _table(name: str, key: str, data: Any, allowed: tuple[str, ...]) -> TableMapping:
    where = f"{name}: [{key}]"
    if not isinstance(data, dict) or not isinstance(data.get("columns"), dict):
        raise AuditError(f"{where} needs [{key}.columns]")
    if unknown := data.keys() - {"files", "columns", "timezone", "header", "names"}:
        raise AuditError(f"{where}: unknown key {min(unknown)!r}")
    files = data.get("files", f"{key}.csv")
    columns = {}
    for column, given in data["columns"].items():
        if column not in allowed:
            raise AuditError(f"{name}: [{key}.columns]: unknown column {column!r}; known are {', '.join(allowed)}")
        columns[column] = _column(f"{name}: [{key}.columns] {column}", given)
    return TableMapping(
        tuple([files] if isinstance(files, str) else files), columns, data.get("timezone"), data.get("header", True),
        tuple(data.get("names", ())),
    )  # fmt: skip


def _column(where: str, given: Any) -> Column:
    if isinstance(given, str):
        return Column(given)
    if not isinstance(given, dict) or given.keys() - _KEYS:
        raise AuditError(f"{where}: must be a column's name or a table with {', '.join(sorted(_KEYS))}")
    if len(given.keys() & set(_SOURCES)) != 1:
        raise AuditError(f"{where}: needs one of {', '.join(_SOURCES)}")
    try:
        scale = float(given.get("scale", 1.0))
        changed = tuple((str(old), str(new)) for old, new in given.get("map", {}).items())
    except (TypeError, ValueError, AttributeError) as error:
        raise AuditError(f"{where}: {error}") from error
    value, default = given.get("value"), given.get("default")
    return Column(
        column=given.get("column"),
        value=None if value is None else str(value),
        sum=tuple(given.get("sum", ())),
        product=tuple(given.get("product", ())),
        scale=scale,
        map=changed,
        row=given.get("row"),
        default=None if default is None else str(default),
    )


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else "not UTF-8"
