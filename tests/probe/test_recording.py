"""The file of a recording: what was written is read back, whatever happened to the probe."""

from __future__ import annotations

import json
import os
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


def test_a_recording_cut_at_any_byte_is_read_or_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    _recording().write(path)
    data = path.read_bytes()
    header = data.index(b"\n") + 1
    for end in range(len(data)):
        path.write_bytes(data[:end])
        if end < header - 1:
            with pytest.raises(RecordingError, match=r"run\.jsonl"):
                Recording.read(path)
        else:
            found = Recording.read(path)
            cut = data[end - 1 : end] != b"\n" and data[end : end + 1] != b"\n"
            assert ("the recording was cut off in its last line" in found.notes) is cut


@pytest.mark.parametrize(
    "value", ["1e999", "-1e400", "1" + "0" * 400, "9" * 5000, "Infinity", "NaN", '"x"', "[]", "{}", "true", "null"]
)
@pytest.mark.parametrize("field", ["started", "interval_s", "version"])
def test_numbers_that_nobody_measures_are_refused(tmp_path: Path, field: str, value: str) -> None:
    path = tmp_path / "run.jsonl"
    _recording().write(path)
    header, rest = path.read_text().split("\n", 1)
    changed = json.loads(header) | {field: "HERE"}
    path.write_text(json.dumps(changed).replace('"HERE"', value) + "\n" + rest)
    with pytest.raises(RecordingError) as raised:
        Recording.read(path)
    assert len(str(raised.value)) < 400 and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("field", "value"), [("started", -1e12), ("interval_s", 0.0), ("interval_s", -1.0), ("interval_s", 1e-9)]
)
def test_times_that_no_run_has_are_refused(tmp_path: Path, field: str, value: float) -> None:
    path = tmp_path / "run.jsonl"
    recording = _recording()
    setattr(recording, field, value)
    recording.write(path)
    with pytest.raises(RecordingError, match=r"ten years|is not possible"):
        Recording.read(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"\0" * 1000,
        b"\xff\xfe\x1f\x8b",
        b"[" * 200_000,
        b'{"a":' * 100_000,
        b"x" * 3_000_000,
        b"null\n",
        b"5\n",
    ],
    ids=range(9),
)
def test_what_is_no_recording_is_said_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.jsonl"
    for before in (b"", None):
        _recording().write(path)
        path.write_bytes(content if before == b"" else path.read_bytes() + content + b"\n")
        if before is None and not content:
            continue
        with pytest.raises(RecordingError, match=r"run\.jsonl") as raised:
            Recording.read(path)
        assert len(str(raised.value)) < 400


def test_pipes_devices_and_folders_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(RecordingError, match="not a regular file"):
            Recording.read(path)
    with pytest.raises(RecordingError, match="nobody reads"):
        RecordingWriter(tmp_path / "pipe", _recording())
