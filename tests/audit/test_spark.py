"""Spark answers as DuckDB does."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("ibis")
pytest.importorskip("pyspark")

from gpulint.cli import main
from tests.audit.comparing import equal
from tests.audit.planted import plant, write


@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
def test_spark_and_duckdb_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(plant(23, seed=11), tmp_path)
    answers = []
    for engine in ("duckdb", "spark"):
        assert main(["audit", str(tmp_path), "--engine", engine, "--output-format", "json"]) == 0
        answers.append(json.loads(capsys.readouterr().out))
    first, second = answers
    assert len(first["jobs"]) >= 23
    for left, right in zip(first["jobs"], second["jobs"], strict=True):
        wrong = {name: (left[name], right[name]) for name in left if not equal(left[name], right[name])}
        assert not wrong, left["job"]
    assert equal(first["totals"], second["totals"])
