"""The benchmark for machines with a GPU: what of it can be checked without one."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from gpulint_probe.analysis import analyse

from tests.probe.synthetic import SAVE, START, WORK, Phase, record

BENCHMARK = Path(__file__).parent.parent.parent / "benchmarks" / "probe_gpu.py"


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    import importlib.util

    spec = importlib.util.spec_from_file_location("probe_gpu", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["probe_gpu"] = module
    spec.loader.exec_module(module)
    return module


def test_dry_run_names_every_pair() -> None:
    done = subprocess.run([sys.executable, BENCHMARK, "--dry-run"], capture_output=True, text=True, check=True)
    labels = [line.partition(": ")[0] for line in done.stdout.splitlines()]
    wasteful = {label.removesuffix(", wasteful") for label in labels if label.endswith(", wasteful")}
    assert wasteful == {label.removesuffix(", repaired") for label in labels if label.endswith(", repaired")}
    assert {"bert, blocking", "bert, background", "swin, pinned, not blocking", "probe, turn 3"} <= set(labels)
    programs = {word for line in done.stdout.splitlines() for word in line.split() if word.endswith("train.py")}
    assert programs
    assert all(Path(program).is_file() for program in programs)


def test_an_unknown_group_is_refused() -> None:
    done = subprocess.run([sys.executable, BENCHMARK, "--only", "batch,nothing"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "nothing is not one of" in done.stderr


def test_figures_are_those_of_the_working_time(benchmark: ModuleType) -> None:
    recording = record([Phase(50, 0.0), *[WORK, SAVE] * 3, Phase(20, 0.0)])
    cut = analyse(benchmark._cut(recording, {"began": START + 50, "ended": START + 50 + 3 * 168}))
    assert cut.seconds == 3 * 168
    assert cut.utilization == pytest.approx(0.9 * 72 / 168)
    run = benchmark.Run("checkpoint", "bert, blocking", ())
    text = benchmark.table("checkpoint", [benchmark.Measured(run, cut, 504.0, 2520)])
    row = text.splitlines()[-1]
    assert row.startswith("| bert, blocking | 39% | 39% | 40% | 5 |")
    assert row.endswith("| 504.0 | 57% checkpoint pauses |")


def test_programs_that_say_nothing_work_from_their_first_activity_on(benchmark: ModuleType) -> None:
    recording = record([Phase(50, 0.0), Phase(100, 0.8), Phase(20, 0.0)])
    assert benchmark._working_time(recording) == {"began": START + 50, "ended": START + 170}
    assert benchmark._working_time(record([Phase(50, unseen=True)])) == {}


def test_overhead_is_a_ratio_of_medians(benchmark: ModuleType) -> None:
    run = benchmark.Run("overhead", "", ())
    found = [
        benchmark.Measured(replace(run, beside=way), None, seconds, 100, cpu)
        for way, seconds, cpu in (
            ("nothing", 10.0, None), ("probe", 10.1, 0.004), ("nothing", 10.0, None), ("probe", 10.1, 0.006),
            ("nothing", 50.0, None), ("probe", 60.0, 0.005),
        )
    ]  # fmt: skip
    rows = benchmark.table("overhead", found).splitlines()
    assert rows[-1] == "| probe | 9.901 | x 0.9901 | 0.50 % of a core |"
