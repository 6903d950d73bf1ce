"""Jobs in tables: one row per job under the names of the profile's fields, or the rows of ``gpulint audit``."""

from __future__ import annotations

import csv
import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from gpulint_share.errors import ShareError
from gpulint_share.profiles.profile import Profile, profile

AUDIT = {
    "job": "name",
    "gpu_type": "card",
    "gpus": "gpus",
    "user": "user",
    "seconds": "seconds",
    "mean_utilization": "utilization",
    "mean_sm_activity": "sm_activity",
    "max_gpu_memory_bytes": "memory_bytes",
    "mean_pcie_rx_bytes_s": "pcie_bytes_s",
    "mean_power_w": "watts",
}
"""Columns of ``gpulint audit --output-format csv``, and what they are in a profile."""
_COLUMNS = (*(field.name for field in fields(Profile)), "memory_mib", "minutes", "hours")
_LEAST_BEGUN = 4
"""Letters of a column's name that tell which one it is."""


def read_csv(path: Path) -> list[Profile]:
    """The rows of a CSV file. Raises ShareError."""
    with path.open(encoding="utf-8", newline="") as file:
        return _profiles(csv.DictReader(file), path)


def read_parquet(path: Path) -> list[Profile]:
    """The rows of a Parquet file. Raises ShareError."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        from gpulint.extras import missing

        raise ShareError(missing(f"reading {path}", error.name or "pyarrow", "audit")) from error
    try:
        return _profiles(pyarrow.parquet.read_table(path).to_pylist(), path)
    except pyarrow.ArrowException as error:
        raise ShareError(f"{path}: {str(error).splitlines()[0]}") from error


def read_toml(path: Path) -> list[Profile]:
    """The ``[[job]]`` tables of a TOML file. Raises ShareError."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8")).get("job", [])
    except tomllib.TOMLDecodeError as error:
        raise ShareError(f"{path}: {error}") from error
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise ShareError(f"{path}: jobs are tables [[job]]")
    return _profiles(found, path)


def _profiles(rows: Iterable[Mapping[str, Any]], path: Path) -> list[Profile]:
    found = []
    for number, row in enumerate(rows, 1):
        audited = "mean_utilization" in row
        if not audited:
            _check_names(row, path)
        values = {name: row.get(column) for column, name in AUDIT.items()} if audited else row
        found.append(profile(values, f"{path} row {number}" + (" (gpulint audit)" if audited else "")))
    return found


def _check_names(row: Mapping[str, Any], path: Path) -> None:
    """Refuse a table without names, and columns that are probably misspelt; others are ignored. Raises ShareError."""
    given = [str(column) for column in row if column]
    if "name" not in given:
        raise ShareError(f"{path}: no column 'name'; it has {', '.join(given)}")
    for column in given:
        near = [] if column in _COLUMNS else _alike(column.lower())
        if near and not any(name in given for name in near):
            meant = " or ".join(repr(name) for name in near)
            raise ShareError(f"{path}: unknown column {column!r}; did you mean {meant}?")


def _alike(column: str) -> list[str]:
    """Names of columns of which this is the beginning, else those that it resembles."""
    begun = [name for name in _COLUMNS if len(column) >= _LEAST_BEGUN and name.startswith(column)]
    return begun or difflib.get_close_matches(column, _COLUMNS, n=1, cutoff=0.75)
