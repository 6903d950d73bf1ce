"""Tables of a recording."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest
from gpulint_probe.export import write_csv, write_parquet
from gpulint_probe.recording import GpuSample, HostSample, Mark, Recording, RecordingError


def _recording() -> Recording:
    return Recording(
        command=[],
        cwd="",
        started=0,
        interval_s=1,
        source="nvml",
        gpu_samples=[GpuSample(1.0, 0, utilization=0.5), GpuSample(2.0, 0, memory_used_bytes=7)],
        host_samples=[HostSample(1.0, 2.5, 8, 100)],
        marks=[Mark(1.0, "log", 'a "quoted", line', None)],
    )


def test_csv_has_one_table_per_kind_and_empty_cells_for_what_was_not_seen(tmp_path: Path) -> None:
    written = write_csv(_recording(), tmp_path / "run.csv")
    assert [path.name for path in written] == ["run.gpu.csv", "run.host.csv", "run.marks.csv"]
    gpu, host, marks = (list(csv.DictReader(path.open())) for path in written)
    assert [row["utilization"] for row in gpu] == ["0.5", ""]
    assert [row["memory_used_bytes"] for row in gpu] == ["", "7"]
    assert host[0]["cpu_cores_used"] == "2.5"
    assert marks[0]["text"] == 'a "quoted", line'


def test_parquet_keeps_types_also_of_columns_that_are_empty(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    written = write_parquet(_recording(), tmp_path / "run")
    assert [path.name for path in written] == ["run.gpu.parquet", "run.host.parquet", "run.marks.parquet"]
    table = parquet.read_table(written[0])
    assert table["utilization"].to_pylist() == [0.5, None]
    assert str(table.schema.field("sm_activity").type) == "double"
    assert str(table.schema.field("memory_used_bytes").type) == "int64"


def test_parquet_without_pyarrow_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(RecordingError, match="needs pyarrow"):
        write_parquet(_recording(), tmp_path / "run")


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="No such file"):
        write_csv(_recording(), tmp_path / "missing" / "run.csv")
