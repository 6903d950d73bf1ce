"""The NVML sources under the real nvidia-ml-py, with a libnvidia-ml.so.1 that the test writes the answers for."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import cast
from unittest import mock

import pynvml
import pytest
from gpulint_probe.recording import Recording, RecordingError
from gpulint_probe.sources.gpm import Gpm

from tests.probe.scripted import build_nvml

HOPPER = """
count 1
0.uuid GPU-aaaa
0.name NVIDIA H100
0.total 80000000000
0.used 2000000000
0.util 100
0.gpm 1
0.sm 0.2
0.occupancy 0.1
0.tensor 0
0.dram 1.5
0.gpm_rx 2
0.gpm_tx 1
0.power 120500
0.energy 5000
0.heat 40
0.clock 1980
"""
AMPERE = HOPPER.replace("0.gpm 1", "0.gpm 0").replace("H100", "A100") + "0.pcie_rx 1000000\n0.pcie_tx 500000\n"
TWO = AMPERE + AMPERE.replace("0.", "1.").replace("aaaa", "bbbb") + "count 2\n"
MIG = (
    HOPPER
    + """
0.mig 2
0m0.uuid MIG-1111
0m0.name NVIDIA H100 MIG 1g.10gb
0m0.total 10000000000
0m0.used 1000000000
0m0.sm 50
0m0.occupancy 20
0m1.uuid MIG-2222
0m1.name NVIDIA H100 MIG 2g.20gb
0m1.total 20000000000
0m1.used 0
0m1.sm 0
0m1.occupancy 0
"""
)
Run = Callable[..., Recording]


def _all(recording: Recording, name: str, gpu: int = 0) -> set[object]:
    return {getattr(sample, name) for sample in recording.gpu_samples if sample.gpu == gpu}


def test_a_busy_gpu_whose_processors_are_idle_is_seen_through(run: Run) -> None:
    recording = run(HOPPER)
    assert recording.source == "nvml-gpm"
    assert [(gpu.uuid, gpu.name, gpu.memory_bytes) for gpu in recording.gpus] == [
        ("GPU-aaaa", "NVIDIA H100", 80_000_000_000)
    ]
    sample = recording.gpu_samples[0]
    assert sample.utilization == 1.0
    assert sample.sm_activity == pytest.approx(0.002)
    assert sample.sm_occupancy == pytest.approx(0.001)
    assert sample.tensor_activity == 0
    assert sample.dram_activity == pytest.approx(0.015)
    assert (sample.pcie_rx_bytes_s, sample.pcie_tx_bytes_s) == (2 << 20, 1 << 20)
    assert (sample.power_w, sample.energy_j, sample.temperature_c, sample.clock_mhz) == (120.5, 5.0, 40, 1980)
    assert sample.memory_used_bytes == 2_000_000_000  # without what the driver reserves
    assert recording.blind_spots == []


def test_without_gpm_the_source_is_coarse_and_says_so(run: Run) -> None:
    recording = run(AMPERE)
    assert recording.source == "nvml"
    assert _all(recording, "utilization") == {1.0}
    assert _all(recording, "sm_activity") == {None}
    assert any("coarse" in text for text in recording.blind_spots)
    assert any("GPM: Not Supported" in text for text in recording.notes)
    # Counters give a rate from the second sample on; the source's own first one does not count here.
    rates = [sample.pcie_rx_bytes_s for sample in recording.gpu_samples]
    assert None not in rates
    assert statistics.median(rate for rate in rates if rate) == pytest.approx(1e6, rel=0.3)


def test_a_gpu_that_is_lost_costs_its_own_samples_only(run: Run) -> None:
    recording = run(TWO, "time.sleep(0.4); say('1.err 15'); time.sleep(0.6); sys.exit(7)", code=7)
    assert recording.exit_code == 7
    ends = [max(sample.time_s for sample in recording.gpu_samples if sample.gpu == gpu) for gpu in (0, 1)]
    assert ends[1] < ends[0] - 0.3
    assert [text for text in recording.notes if "lost" in text] == [
        "GPU 1 (NVIDIA A100): GPU is lost; no samples after that"
    ]


def test_what_needs_rights_is_left_out_and_said_once(run: Run) -> None:
    recording = run(AMPERE + "0.err.power 4\n0.err.pids 4\n")
    assert _all(recording, "power_w") == {None}
    assert _all(recording, "utilization") == {1.0}
    assert sorted(text for text in recording.notes if "permission" in text) == [
        "GPU 0: no permission to read ComputeRunningProcesses",
        "GPU 0: no permission to read PowerUsage",
    ]


def test_gpm_without_the_right_to_it_leaves_the_coarse_figures(run: Run) -> None:
    recording = run(HOPPER + "0.err.gpm 4\n")
    assert recording.source == "nvml"
    assert "NVML GPM: Insufficient Permissions" in recording.notes


def test_samples_too_close_for_gpm_cost_one_reading() -> None:
    taken = itertools.count(1)
    measured: list[tuple[int, int]] = []

    def take(device: object, sample: list[int]) -> None:
        sample[:] = [next(taken)]

    def metrics(request: SimpleNamespace) -> None:
        pair = request.sample1[0], request.sample2[0]
        if pair == (2, 3):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNKNOWN)
        measured.append(pair)

    functions = {
        "nvmlGpmQueryDeviceSupport": lambda device: SimpleNamespace(isSupportedDevice=1),
        "nvmlGpmSampleAlloc": lambda: [0], "nvmlGpmSampleGet": take, "nvmlGpmMetricsGet": metrics,
        "c_nvmlGpmMetricsGet_t": lambda: SimpleNamespace(metrics=[mock.Mock(value=0.0) for _ in range(20)]),
    }  # fmt: skip
    gpm = Gpm(cast(ModuleType, SimpleNamespace(**vars(pynvml) | functions)), object(), None)
    gpm.read()
    with pytest.raises(pynvml.NVMLError):
        gpm.read()
    gpm.read()
    assert measured == [(1, 2), (3, 4)]


def test_mig_instances_are_gpus_of_their_own(run: Run) -> None:
    recording = run(MIG)
    assert [(gpu.uuid, gpu.mig, gpu.memory_bytes) for gpu in recording.gpus] == [
        ("MIG-1111", "1g.10gb", 10_000_000_000),
        ("MIG-2222", "2g.20gb", 20_000_000_000),
    ]
    assert _all(recording, "sm_activity", 0) == {0.5}
    assert _all(recording, "sm_activity", 1) == {0.0}
    assert any("power" in text for text in recording.blind_spots)


def test_only_the_jobs_gpus_are_watched(run: Run) -> None:
    for script, visible, expected in [
        (TWO, "1", ["GPU-bbbb"]),
        (TWO, "GPU-aa", ["GPU-aaaa"]),
        (TWO, "1,0", ["GPU-aaaa", "GPU-bbbb"]),
        (MIG, "MIG-2222", ["MIG-2222"]),
    ]:
        recording = run(script, "pass", CUDA_VISIBLE_DEVICES=visible)
        assert [gpu.uuid for gpu in recording.gpus] == expected, visible
    recording = run(TWO, "pass", "--gpus", "all", CUDA_VISIBLE_DEVICES="1")
    assert len(recording.gpus) == 2
    assert run(TWO, "pass", CUDA_VISIBLE_DEVICES="").source == "none"


def test_memory_of_the_job_is_told_from_that_of_others(run: Run) -> None:
    recording = run(TWO + "0.pids 1:4096\n", "say(f'0.pids 1:4096,{os.getpid()}:1000'); time.sleep(0.8)")
    assert recording.gpu_samples[-2].process_memory_bytes == 1000
    assert recording.gpu_samples[-1].process_memory_bytes == 0  # it uses only the first GPU


def test_processes_named_by_numbers_of_the_host_mean_nothing(run: Run) -> None:
    assert _all(run(AMPERE + "0.pids 99999999:4096\n"), "process_memory_bytes") == {None}


def test_without_a_driver_the_job_runs_and_the_host_is_watched(run: Run) -> None:
    recording = run("init 9\n", "time.sleep(0.5); sys.exit(4)", code=4)
    assert recording.source == "none"
    assert recording.gpu_samples == []
    assert "NVML: Driver Not Loaded" in recording.notes
    assert recording.host_samples


def test_an_old_driver_lacks_functions(run: Run, tmp_path: Path) -> None:
    recording = run(AMPERE, folder=build_nvml(tmp_path, "-DOLD_DRIVER"))
    assert recording.source == "nvml"
    assert _all(recording, "memory_used_bytes") == {2_000_000_100}


def test_one_gpu_that_cannot_be_opened_does_not_hide_the_other(run: Run) -> None:
    recording = run(TWO + "0.err.open 15\n")
    assert [gpu.uuid for gpu in recording.gpus] == ["GPU-bbbb"]
    assert "GPU 0 cannot be opened: GPU is lost" in recording.notes
    assert {sample.gpu for sample in recording.gpu_samples} == {recording.gpus[0].index}


def test_a_named_source_that_does_not_work_is_misuse_and_starts_nothing(run: Run, tmp_path: Path) -> None:
    started = tmp_path / "started"
    with pytest.raises(RecordingError):  # there is none
        run(AMPERE, f"open({str(started)!r}, 'w')", "--source", "gpm", code=2)
    assert not started.exists()
