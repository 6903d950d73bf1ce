"""``gpulint share simulate``: input, output and mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpulint.cli import main

TASKS = """task,seconds,gpus,measured_mib,sm_activity,horus_mib
small,600,1,4000,0.3,3000
large,1200,1,30000,0.6,90000
"""
ARRIVALS = "arrival_s,task\n0,small\n0,large\n10,small\n20,large\n"
JOBS = """job,submit,start,end,gpus,memory_mib,sm_activity
a,1000,1000,1600,1,4000,0.3
b,1010,1700,2300,1,4000,0.3
c,1020,1700,,1,4000,0.3
d,1030,1700,1800,2,,
"""


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with all kinds of input."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tasks.csv").write_text(TASKS)
    (tmp_path / "arrivals.csv").write_text(ARRIVALS)
    (tmp_path / "jobs.csv").write_text(JOBS)
    return tmp_path


def _simulate(*words: str) -> int:
    return main(["share", "simulate", *words])


ARRIVED = ("arrivals.csv", "--tasks", "tasks.csv", "--gpus", "1xA100-40GB")


def test_a_table_with_changes_against_the_first_policy(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _simulate(*ARRIVED, "--policy", "exclusive,magm", "--least-free", "5120") == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "4 tasks on 1 x A100-40GB, 1 to a node"
    assert [line.split()[0] for line in lines[1:4]] == ["policy", "exclusive", "magm"]
    assert "%" in lines[3]


def test_json_has_assumptions_means_and_runs(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _simulate(*ARRIVED, "--runs", "3", "--noise", "0.1", "--seed", "5", "--output-format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["policy"] for one in found["policies"]] == ["exclusive", "lug"]
    assert [len(one["runs"]) for one in found["policies"]] == [3, 3]
    assert (found["assumptions"]["seed"], found["assumptions"]["window"]) == (5, 90.0)
    assert found["assumptions"]["fleet"]["power"]["most"] == 400.0


def test_a_table_of_jobs_as_the_audit_reads_it(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _simulate(".", "--gpus", "2xA100-40GB", "--output-format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["policies"][0]["mean"]["tasks"] == 3
    assert found["notes"] == [
        ".: 1 of 4 jobs have no end after their start; left out",
        ".: memory of 1 of 3 jobs is unknown; assumed to fill their cards",
    ]


def test_a_mapping_of_other_columns(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (trace / "log").mkdir()
    (trace / "log/done.csv").write_text("id,begin,took,cards\n1,100,60,1\n2,100,60,4\n")
    (trace / "site.toml").write_text(
        '[jobs]\nfiles = "done.csv"\n[jobs.columns]\njob = "id"\nstart = "begin"\ngpus = "cards"\n'
        'end = { sum = ["begin", "took"] }\n'
    )
    words = ("--mapping", "site.toml", "--gpus", "2xA100-40GB", "--output-format", "json")
    assert _simulate("log", *words) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["policies"][0]["mean"]["execution"] == 120.0  # and 60 s of start-up
    assert found["notes"][-1].startswith("1 task left out: task '2' cannot run: it needs 4 GPUs of a node")


def test_samples_say_what_jobs_used(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ibis")
    rows = ["timestamp,job,gpu,gpu_utilization,sm_activity,gpu_memory_bytes"]
    rows += [f"{1000 + second},{job},0,0.9,0.25,{5 << 30}" for job in "ab" for second in range(0, 600, 60)]
    (trace / "jobs.csv").write_text("job,submit,start,end\na,1000,1000,1600\nb,1000,1000,1600\n")
    (trace / "samples.csv").write_text("\n".join(rows) + "\n")
    words = ("--gpus", "1xA100-40GB", "--startup", "0", "--window", "0", "--interval", "1")
    assert _simulate(".", *words, "--output-format", "json") == 0
    exclusive, shared = json.loads(capsys.readouterr().out)["policies"]
    assert exclusive["mean"]["total_time"] == 1200
    assert exclusive["mean"]["activity"] == pytest.approx(0.25)
    assert shared["mean"]["total_time"] == pytest.approx(600 / 0.95, abs=2)
    assert shared["mean"]["memory_mib"] == pytest.approx(2 * 5120, rel=0.01)


def test_a_plot(trace: Path) -> None:
    assert _simulate(*ARRIVED, "--plot", "over time.svg") == 0
    assert (trace / "over time.svg").read_text().count("<polyline") == 6  # two policies, three panels


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("arrivals.csv", "--gpus", "1xA100-40GB"), "names tasks; --tasks FILE"),
        (("jobs.csv", "--tasks", "tasks.csv", "--gpus", "1xA100-40GB"), "--tasks: jobs.csv is a table of jobs"),
        (("no.csv", "--gpus", "1xA100-40GB"), "no.csv: cannot be read"),
        (("jobs.csv", "--gpus", "A100"), "must be COUNTxCARD"),
        (("jobs.csv", "--gpus", "4xA1000000"), "unknown card 'A1000000'"),
        (("jobs.csv", "--gpus", "4xA100-40GB", "--per-node", "3"), "must divide the 4 cards"),
        (("wide.csv", "--gpus", "1xA100-40GB"), "the trace has no tasks"),
        (("jobs.csv", "--mapping", "helios", "--gpus", "1xA100-40GB"), "--mapping: jobs.csv is no folder"),
        ((*ARRIVED, "--estimator", "gpulint"), "task 'small' has no value for it"),
        (("odd.csv", "--tasks", "tasks.csv", "--gpus", "1xA100-40GB"), "odd.csv:3: task 'medium' is not in the table"),
        (("minus.csv", "--tasks", "tasks.csv", "--gpus", "1xA100-40GB"), "minus.csv:2: arrival_s is '-1'"),
        (("short.csv", "--tasks", "tasks.csv", "--gpus", "1xA100-40GB"), "short.csv:2: not as many values"),
        ((*ARRIVED, "--plot", "no/such/plot.svg"), "cannot be written"),
    ],
)
def test_mistakes(trace: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str) -> None:
    (trace / "odd.csv").write_text("arrival_s,task\n0,small\n1,medium\n")
    (trace / "minus.csv").write_text("arrival_s,task\n-1,small\n")
    (trace / "wide.csv").write_text("job,start,end,gpus\na,0,10,2\n")
    (trace / "short.csv").write_text("arrival_s,task\n5\n")
    assert _simulate(*words) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("words", [("--policy", "best"), ("--most-activity", "80"), ("--slot", "0"), ("--runs", "0")])
def test_wrong_options(trace: Path, words: tuple[str, ...]) -> None:
    assert _simulate(*ARRIVED, *words) == 2
