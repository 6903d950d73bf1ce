"""The file of a recording: what was written is read back, whatever happened to the probe."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gpulint_probe.recording import (
    GpuInfo,
    GpuSample,
    HostSample,
    Mark,
    Recording,
    RecordingError,
    RecordingWriter,
)


def _recording() -> Recording:
    return Recording(
        command=["python", "train.py"],
        cwd="/job",
        started=100.0,
        interval_s=1.0,
        source="nvml-gpm",
        blind_spots=["nothing of the network between GPUs"],
        gpus=[GpuInfo(0, "GPU-1", "H100", 80 << 30), GpuInfo(1, "MIG-2", "H100", 10 << 30, mig="1g.10gb")],
        gpu_samples=[GpuSample(101.0, 0, sm_activity=0.25, memory_used_bytes=1 << 30), GpuSample(101.0, 1)],
        host_samples=[HostSample(101.0, 1.5, 16, 1 << 30, net_rx_bytes_s=10.0, processes=3)],
        marks=[Mark(101.5, "epoch", "epoch 1 ö", 1.0)],
        notes=["GPU 1 was lost"],
        ended=102.0,
        exit_code=3,
    )


def test_a_recording_is_read_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    _recording().write(path)
    assert Recording.read(path) == _recording()


def test_a_probe_that_is_killed_loses_only_what_comes_after(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    full = _recording()
    writer = RecordingWriter(path, full)
    writer.add(full.gpu_samples[0])
    found = Recording.read(path)  # the writer was never closed
    assert found.gpu_samples == full.gpu_samples[:1]
    assert found.ended is None and found.exit_code is None


def test_a_half_written_last_line_is_left_out_and_said(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    _recording().write(path)
    path.write_bytes(path.read_bytes()[:-20])
    found = Recording.read(path)
    assert found.gpu_samples == _recording().gpu_samples
    assert found.ended is None
    assert "the recording was cut off in its last line" in found.notes


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{broken\n", "run.jsonl:2: not a line"),
        ("[1]\n", "run.jsonl:2: not a line"),
        ('{"line":"gpu","time_s":1,"gpu":0,"sm_activity":NaN}\n', "run.jsonl:2: not a line"),
        ('{"line":"gpu","time_s":"noon","gpu":0}\n', "run.jsonl:2: 'time_s' must be float"),
        ('{"line":"gpu","time_s":1}\n', "run.jsonl:2: 'gpu' is missing"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "run.jsonl"
    _recording().write(path)
    header, *rest = path.read_text().splitlines(keepends=True)
    path.write_text(header + line + "".join(rest))
    with pytest.raises(RecordingError, match=message):
        Recording.read(path)


def test_other_files_and_newer_recordings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    for text, message in [
        ("", "empty"),
        ('{"a": 1}\n', "not a gpulint recording"),
        (json.dumps({"format": "gpulint-recording", "version": 99}) + "\n", "newer gpulint"),
    ]:
        path.write_text(text)
        with pytest.raises(RecordingError, match=message):
            Recording.read(path)
    with pytest.raises(RecordingError, match="No such file"):
        Recording.read(tmp_path / "missing.jsonl")


def test_a_line_of_a_later_kind_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    _recording().write(path)
    with path.open("a") as file:
        file.write('{"line":"weather","sun":1}\n')
    assert Recording.read(path) == _recording()
