"""What the tests of the audit share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

JOBS = "job,user,queue,submit,start,end,gpus,kind,state,command,workdir\n"
SAMPLES = "timestamp,job,gpu,gpu_utilization,gpu_memory_bytes\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One job of 600 s on one of two GPUs, busy for its first 300 s."""
    (tmp_path / "jobs.csv").write_text(
        f"{JOBS}a,ann,q1,940,1000,1600,2,train,COMPLETED,python train.py,/home/ann/work\n"
    )
    rows = [
        f"{1000 + 15 * i},a,{gpu},{0.8 if i < 20 and gpu == 0 else 0},{8e9 if i < 20 and gpu == 0 else 0}\n"
        for i in range(40)
        for gpu in (0, 1)
    ]
    (tmp_path / "samples.csv").write_text(SAMPLES + "".join(rows))
    return tmp_path


@pytest.fixture
def audit(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, Any, str]]:
    """Exit code, JSON (None if there is none) and standard error of an audit."""
    pytest.importorskip("duckdb")
    pytest.importorskip("ibis")
    from gpulint.cli import main

    def run(*arguments: object) -> tuple[int, Any, str]:
        capsys.readouterr()
        code = main(["audit", *map(str, arguments), "--output-format", "json"])
        out, err = capsys.readouterr()
        return code, json.loads(out) if out else None, err

    return run
