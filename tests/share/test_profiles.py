"""Profiles of jobs, from every kind of file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gpulint_probe.recording import GpuInfo, GpuSample, HostSample, Recording
from gpulint_share import Profile, ShareError, Value, read
from gpulint_share.profiles import on_card

from gpulint.cli import main

MIB = 1 << 20


def test_a_recording_gives_means_the_most_memory_and_the_duration(tmp_path: Path) -> None:
    samples = [
        GpuSample(
            float(time), 0, sm_activity=activity, utilization=0.5, memory_used_bytes=size * MIB, pcie_rx_bytes_s=1e9
        )
        for time, activity, size in ((1, 0.2, 1000), (2, 0.4, 3000), (3, 0.3, 2000))
    ]
    hosts = [HostSample(1.0, 2.0, 8, 1), HostSample(2.0, 4.0, 8, 1)]
    recording = Recording(
        ["python", "t.py"], "/", 0.0, 1.0, "nvml-gpm", gpus=[GpuInfo(0, "GPU-1", "NVIDIA A100-SXM4-40GB", 40960 * MIB)],
        gpu_samples=samples, host_samples=hosts, ended=4.0,
    )  # fmt: skip
    recording.write(tmp_path / "run.jsonl")
    (job,) = read([tmp_path])
    assert job.sm_activity is not None and job.sm_activity.mid == pytest.approx(0.3)
    assert job.sm_activity.low < 0.3 < job.sm_activity.high
    assert "run.jsonl (nvml-gpm)" in job.sm_activity.source
    assert job.memory_bytes is not None and job.memory_bytes.mid == 3000 * MIB
    assert job.cpu_cores is not None and job.cpu_cores.mid == 3
    assert job.seconds is not None and job.seconds.mid == 4
    assert job.command == "python t.py"
    assert job.memory_activity is None


def test_rows_of_the_audit_are_known_by_their_columns(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(
        "job,user,gpus,gpu_type,seconds,mean_utilization,mean_sm_activity,max_gpu_memory_bytes,mean_power_w\n"
        "17,ann,1,A100-40GB,600,0.5,0.3,8e9,180\n"
        "18,ann,2,A100-40GB,60,,,,\n"
    )
    first, second = read([tmp_path / "jobs.csv"])
    assert (first.name, first.user, first.card) == ("17", "ann", "A100-40GB")
    assert first.figures().keys() == {"utilization", "sm_activity", "memory_bytes", "watts", "seconds"}
    assert second.gpus == 2 and second.utilization is None


def test_parquet_is_read_like_csv(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pytest.importorskip("pyarrow").table({"name": ["a"], "utilization": [0.4], "memory_mib": [1024]})
    parquet.write_table(table, tmp_path / "jobs.parquet")
    (job,) = read([tmp_path / "jobs.parquet"])
    assert job.memory_bytes is not None and job.memory_bytes.mid == 1 << 30


def test_an_estimate_keeps_its_intervals(tmp_path: Path) -> None:
    answer = {
        "target": "timm:resnet50", "batch_size": 64, "card": "A100-40GB", "device_bytes": 8_000_000_000,
        "low_bytes": 7_000_000_000, "high_bytes": 9_000_000_000, "gpu_busy": 0.8, "gpu_busy_range": [0.6, 1.0],
        "sm_activity": 0.5, "sm_activity_range": [0.3, 0.65],
    }  # fmt: skip
    (tmp_path / "job.json").write_text(json.dumps(answer))
    (job,) = read([tmp_path / "job.json"])
    assert job.memory_bytes is not None and (job.memory_bytes.low, job.memory_bytes.high) == (7e9, 9e9)
    assert job.sm_activity is not None and job.sm_activity.high == 0.65
    assert job.utilization is not None and (job.utilization.mid, job.utilization.low) == (0.8, 0.6)
    assert job.seconds is None


def test_task_files_are_read_in_both_forms(tmp_path: Path) -> None:
    (tmp_path / "a.rad").write_text(
        "# comment\nconda activate tf\npython bert.py\nbert.model\nwiki\n32\nexclusive\n1\n19828\n1.0\n2\n3\n"
    )
    (tmp_path / "b.rad").write_text(
        "conda activate tf\npython net.py\nmodel: net.model\nbatch_size: 8\npolicy: collocation\n"
    )
    first, second = read([tmp_path])
    assert (first.name, first.policy, first.command) == ("a", "exclusive", "conda activate tf && python bert.py")
    assert first.memory_bytes is not None and first.memory_bytes.mid == 19828 * MIB
    assert second.policy == "collocation" and second.memory_bytes is None


def test_jobs_of_one_name_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "jobs.toml").write_text('[[job]]\nname = "a"\n[[job]]\nname = "a"\nhours = 2\n')
    first, second = read([tmp_path / "jobs.toml"])
    assert first.name != second.name
    assert second.seconds is not None and second.seconds.mid == 7200


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "jobs.csv",
            "name,utilization\na,80\n",
            "job a: utilization is 80, but ratios are from 0 to 1; for 80% write 0.8",
        ),
        ("jobs.csv", "name,minutes\na,soon\n", "minutes: 'soon' is not a number"),
        ("jobs.csv", "utilization\n0.3\n", "jobs.csv: no column 'name'; it has utilization"),
        ("jobs.csv", "name,utilization\n,0.3\n", "row 1: a job without a name"),
        ("jobs.csv", "name,util\na,0.3\n", "unknown column 'util'; did you mean 'utilization'?"),
        ("jobs.csv", "name,memory_mb\na,4\n", "unknown column 'memory_mb'; did you mean 'memory_mib'?"),
        ("jobs.toml", "[[job\n", "jobs.toml: "),
        ("job.json", "{}", "not the output of gpulint estimate: 'target' is missing"),
        ("jobs.txt", "", "the suffix must be one of"),
        ("empty.csv", "name\n", "empty.csv; expected recordings, tables"),
        ("a.rad", "policy: exclusive\n", "a task needs its command"),
        ("a.rad", "run\npolicy: alone\n", "policy 'alone' is not one of"),
    ],
)
def test_bad_input_is_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ShareError) as caught:
        read([path])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_sm_activity_is_converted_by_the_number_of_multiprocessors() -> None:
    job = Profile(
        "a", "A100-40GB", sm_activity=Value(0.66, 0.6, 0.7, "measured"), utilization=Value(0.9, 0.9, 0.9, "m")
    )
    moved = on_card(job, "H200")
    assert moved.sm_activity is not None
    assert moved.sm_activity.mid == pytest.approx(0.66 * 108 / 132)
    assert "scaled by sms 108/132" in moved.sm_activity.source
    assert moved.sm_activity.high - moved.sm_activity.low > 0.1
    assert moved.utilization == job.utilization
    assert on_card(job, "A100-40GB").sm_activity == job.sm_activity
    with pytest.raises(ShareError, match="unknown card"):
        on_card(job, "Abacus")


def test_the_command_shows_figures_bounds_and_sources(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "jobs.csv"
    table.write_text("name,card,sm_activity,memory_mib\na,A100-40GB,0.66,5000\n")
    assert main(["share", "profile", str(table), "--gpu", "H200"]) == 0
    shown = capsys.readouterr().out
    assert "a (H200)" in shown and "5,000 MiB" in shown
    assert "54% (40% to 68%)" in shown and "scaled by sms 108/132" in shown
    assert "unknown: utilization, memory_activity" in shown
    assert main(["share", "profile", str(table), "--output-format", "json"]) == 0
    (job,) = json.loads(capsys.readouterr().out)
    assert job["sm_activity"]["mid"] == 0.66
    assert main(["share", "profile", str(table), "--gpu", "Abacus"]) == 2
    assert "unknown card 'Abacus'; known are K80" in capsys.readouterr().err
