"""Samples that a source hands over row by row: Arrow batches that the query engine takes in."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from gpulint_audit.tables import SAMPLE_COLUMNS

_BATCH = 500_000
_TYPES = {"float64": pa.float64(), "string": pa.string()}


class Samples:
    """Rows for one table of the query engine; ``name`` must be its own."""

    def __init__(self, connection: Any, name: str) -> None:
        self._connection, self._name = connection, name
        self._schema = pa.schema([(column, _TYPES[kind]) for column, kind in SAMPLE_COLUMNS.items()])
        self._rows: list[dict[str, Any]] = []
        self._table: Any = None
        self.count = 0

    def add(self, row: dict[str, Any]) -> None:
        """One row, with any of the generic columns."""
        self._rows.append(row)
        self.count += 1
        if len(self._rows) >= _BATCH:
            self._flush()

    def table(self) -> Any:
        """The table with all rows so far."""
        if self._rows or self._table is None:
            self._flush()
        return self._table

    def _flush(self) -> None:
        rows = pa.Table.from_pylist(self._rows, schema=self._schema)
        self._rows = []
        if self._table is None:
            self._table = self._connection.create_table(self._name, rows, overwrite=True)
        elif self._connection.name == "duckdb":
            self._connection.insert(self._name, rows)
        else:
            self._table = self._table.union(self._connection.create_table(f"{self._name}_{self.count}", rows))
