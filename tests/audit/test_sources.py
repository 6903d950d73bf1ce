"""Slurm's accounting and the probe's recordings."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Audit = Callable[..., tuple[int, Any, str]]
HEADER = "JobID|User|Partition|Submit|Start|End|AllocTRES|State|JobName|SubmitLine|WorkDir\n"
LINE = "a|ann|gpu|940|1000|1600|cpu=8,gres/gpu=2,gres/gpu:a100=2|COMPLETED|train|python train.py|/home/ann\n"


def _json(count: object) -> str:
    job = {
        "job_id": 7, "user": "ann", "partition": "gpu", "name": "train", "working_directory": "/home/ann",
        "time": {"submission": 940, "start": {"set": True, "infinite": False, "number": 1000}, "end": 1600},
        "state": {"current": ["COMPLETED"]},
        "tres": {"allocated": [{"type": "cpu", "name": "", "count": 8}, {"type": "gres", "name": "gpu", "count": count},
                               {"type": "gres", "name": "gpu:a100", "count": count}]},
    }  # fmt: skip
    return json.dumps({"jobs": [job]})


@pytest.mark.parametrize("text", [HEADER + LINE, (HEADER + LINE).replace("\n", "|\n"), _json(2)])
def test_sacct_in_all_its_formats(text: str, tmp_path: Path, audit: Audit) -> None:
    (tmp_path / "sacct.txt").write_text(text)
    code, answer, _ = audit(tmp_path / "sacct.txt")
    (job,) = answer["jobs"]
    assert code == 0
    assert (job["user"], job["queue"], job["gpus"], job["gpu_type"]) == ("ann", "gpu", 2, "a100")
    assert (job["seconds"], job["queue_seconds"], job["coverage"], job["never_used_gpus"]) == (600.0, 60.0, 0.0, None)


def test_sacct_is_piped_and_goes_with_samples(folder: Path, audit: Audit, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "jobs.csv").unlink()
    steps = "a.batch||||1000|1600|gres/gpu=2|COMPLETED|batch||\nb|bob|cpu|1|2|3|cpu=4|COMPLETED|x||\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO(HEADER + LINE + steps))
    _, answer, _ = audit("-", folder)
    (job,) = answer["jobs"]
    assert (job["user"], job["mean_utilization"], job["coverage"]) == ("ann", 0.2, 1.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (_json(2)[:-10], "not the whole output of sacct --json"),
        ("a b c\n", "neither JSON nor a header of sacct"),
        (HEADER + "a|b\n", ":2: 2 fields, but the header has 11"),
        ("", "empty; pipe the output of sacct"),
    ],
)
def test_half_of_sacct(text: str, said: str, tmp_path: Path, audit: Audit) -> None:
    (tmp_path / "sacct.txt").write_text(text)
    code, _, error = audit(tmp_path / "sacct.txt")
    assert (code, said in error) == (2, True), error


def test_recordings_of_the_probe(tmp_path: Path, audit: Audit) -> None:
    from gpulint_probe.recording import GpuInfo, GpuSample, Recording

    samples = [
        GpuSample(1001.0 + i, gpu, utilization=0.5 if gpu == 0 and i < 60 else 0.0, memory_used_bytes=0)
        for i in range(120)
        for gpu in (0, 1)
    ]
    recording = Recording(
        ["python", "train.py"], "/home/ann", 1000.0, 1.0, "nvml",
        gpus=[GpuInfo(0, "GPU-0", "A100", 80_000_000_000), GpuInfo(1, "GPU-1", "A100", 80_000_000_000)],
        gpu_samples=samples, ended=1120.0, exit_code=0,
    )  # fmt: skip
    recording.write(tmp_path / "run.jsonl")
    (tmp_path / "broken.jsonl").write_text("{")
    code, answer, error = audit(tmp_path)
    (job,) = answer["jobs"]
    assert (code, "broken.jsonl" in error) == (1, True)
    assert (job["job"], job["gpus"], job["coverage"], job["mean_utilization"]) == ("run", 2, 1.0, 0.125)
    assert (job["never_used_gpus"], job["idle_at_end_seconds"], job["idle_slot_seconds"]) == (1, 60.0, 180.0)
