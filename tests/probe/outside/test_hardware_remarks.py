"""What a report says about limits, errors, neighbours, threads and placement."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from gpulint_probe.analysis import analyse
from gpulint_probe.recording import Recording
from gpulint_probe.reporting.page import page, remarks
from gpulint_probe.surroundings import GpuProcess, Machine, Mount, ThreadCpu

from tests.probe.synthetic import START, Phase, record


def _with_gpu(part: slice = slice(None), **values: Any) -> Recording:
    """A job of 100 s whose samples in ``part`` have these values."""
    recording = record([Phase(100, 0.3)])
    changed = [replace(sample, **values) for sample in recording.gpu_samples[part]]
    recording.gpu_samples[part] = changed
    return recording


def _with_host(**values: Any) -> Recording:
    recording = record([Phase(100, 0.3)])
    recording.host_samples = [replace(sample, **values) for sample in recording.host_samples]
    return recording


def _remarks(recording: Recording) -> str:
    analysis = analyse(recording)
    text = "\n".join(remarks(analysis))
    shown = " ".join(page(analysis).split())
    assert all(" ".join(line.split()) in shown for line in remarks(analysis))
    return text


def test_a_power_cap_is_said_with_how_far_it_goes() -> None:
    recording = _with_gpu(throttle_reasons=[], clock_mhz=1400.0)
    recording.gpus = [replace(recording.gpus[0], max_clock_mhz=1410.0)]
    recording.gpu_samples[:40] = [
        replace(sample, throttle_reasons=["power_cap"], clock_mhz=990.0) for sample in recording.gpu_samples[:40]
    ]
    analysis = analyse(recording)
    assert analysis.hardware.throttled == [{"power_cap": pytest.approx(0.4)}]
    assert "GPU 0: its power limit held its clocks down 40% of the time, at 990 of 1410 MHz" in _remarks(recording)


def test_no_throttling_and_throttling_that_nobody_saw_are_different() -> None:
    assert analyse(_with_gpu(throttle_reasons=[])).hardware.throttled == [{}]
    assert "held its clocks" not in _remarks(_with_gpu(throttle_reasons=[]))


def test_errors_count_from_the_first_sample_on() -> None:
    recording = _with_gpu(slice(0, 1), pcie_replays=70, ecc_corrected=5)
    recording.gpu_samples[-1] = replace(recording.gpu_samples[-1], pcie_replays=82, ecc_corrected=5)
    text = _remarks(recording)
    assert "GPU 0: 12 PCIe replays during the run" in text
    assert "memory error" not in text


def test_an_xid_is_named() -> None:
    recording = _with_gpu(xids=[])
    recording.gpu_samples[10] = replace(recording.gpu_samples[10], xids=[79])
    assert "GPU 0: the driver reported XID 79" in _remarks(recording)


def test_traffic_of_links_is_said_and_what_nobody_saw_is_not() -> None:
    text = _remarks(_with_gpu(nvlink_rx_bytes_s=30e9, nvlink_tx_bytes_s=15e9))
    assert "NVLink carried 45.0 GB/s for each GPU on average" in text
    assert "InfiniBand" not in text
    recording = _with_host(ib_rx_bytes_s=2e8, ib_tx_bytes_s=1e8, ib_errors=5)
    recording.host_samples[-1] = replace(recording.host_samples[-1], ib_errors=7)
    text = _remarks(recording)
    assert "InfiniBand or RoCE carried 300 MB/s on average" in text
    assert "2 InfiniBand errors during the run" in text
    assert analyse(_with_gpu()).hardware.traffic == {}


def test_waits_for_memory_are_said() -> None:
    assert "a task waited for memory 20% of the time" in _remarks(_with_host(memory_stalled=0.2))
    assert "waited for memory" not in _remarks(_with_host(memory_stalled=0.01))


def test_reads_from_the_page_cache_are_said_unless_a_network_file_system_served_them() -> None:
    recording = _with_host(file_read_bytes_s=2e8, disk_read_bytes_s=1e7)
    assert "the job read 200 MB/s from files on average, 95% of it from memory" in _remarks(recording)
    recording.mounts = [Mount(START, "/data", "nfs4", "filer:/data", True)]
    assert "from memory" not in _remarks(recording)


def test_lanes_that_are_missing_are_said() -> None:
    recording = _with_gpu(slice(0, 1), pcie_width=8)
    recording.gpus = [replace(recording.gpus[0], max_pcie_width=16)]
    assert "GPU 0: its PCIe link has 8 of 16 lanes" in _remarks(recording)


def test_a_neighbour_counts_only_where_it_is_told_from_the_job() -> None:
    mine: GpuProcess = {"pid": 1, "memory_bytes": 4 << 30, "job": True}
    other: GpuProcess = {"pid": 2, "memory_bytes": 8 << 30, "job": False}
    (said,) = [text for text in remarks(analyse(_with_gpu(processes=[mine, other]))) if "shared" in text]
    assert said.startswith("GPU 0 is shared: 1 process of others with up to 8.0 GiB computed on it")
    assert analyse(_with_gpu(processes=[mine])).hardware.neighbours == [0]
    unknown: GpuProcess = {"pid": 2, "memory_bytes": 8 << 30}
    assert analyse(_with_gpu(processes=[unknown])).hardware.neighbours == [None]
    assert analyse(_with_gpu()).hardware.neighbours == [None]


def _thread(name: str, share: float, tid: int = 1) -> ThreadCpu:
    return {"pid": 1, "tid": tid, "name": name, "cpu_share": share}


def test_one_busy_core_of_many_is_said() -> None:
    text = _remarks(_with_host(threads=[_thread("python", 0.98), _thread("pin", 0.1, 2)]))
    assert "one thread named python kept a whole core busy 100% of the time, while the job may use 16 cores" in text


def test_threads_that_share_the_work_are_not_one_busy_core() -> None:
    assert "whole core" not in _remarks(_with_host(threads=[_thread("w", 0.6, 1), _thread("w", 0.6, 2)]))


def test_workers_that_are_started_anew_count_by_their_name() -> None:
    recording = _with_host(threads=[])
    for index, sample in enumerate(recording.host_samples):
        recording.host_samples[index] = replace(sample, threads=[_thread("pt_data_worker", 0.95, index)])
    assert analyse(recording).hardware.threads[0].busy == pytest.approx(1)


def test_a_limit_on_cores_is_said_with_its_size() -> None:
    recording = _with_host(cpu_limited=0.8)
    recording.machine = Machine("node1", cpus=64, cpu_limit=2.5)
    assert "the control group's limit of 2.5 cores held the job's threads in 80% of the time" in _remarks(recording)


def test_waits_for_storage_and_network_file_systems_are_said() -> None:
    recording = _with_host(io_stalled=0.5)
    recording.mounts = [
        Mount(START, "/data", "nfs4", "filer:/data", network=True),
        Mount(START, "/", "ext4", "/dev/sda1", network=False),
    ]
    text = _remarks(recording)
    assert "a task waited for a disk or a file system 50% of the time" in text
    assert "files open on /data, a network file system (nfs4, filer:/data)" in text
    assert "ext4" not in text


def test_a_machine_with_more_work_than_cores_is_said() -> None:
    assert "waited for a free core 90% of the time" in _remarks(_with_host(cpu_stalled=0.9))
    assert "free core" not in _remarks(_with_host(cpu_stalled=0.2))


def test_the_share_of_the_page_cache() -> None:
    found = analyse(_with_host(file_read_bytes_s=1e9, disk_read_bytes_s=1e8)).hardware.page_cache_share
    assert found == pytest.approx(0.9)
    assert analyse(_with_host(file_read_bytes_s=None)).hardware.page_cache_share is None


def test_cores_far_from_a_gpu_are_said() -> None:
    recording = record([Phase(100, 0.3)], [Phase(100, 0.3)])
    recording.machine = Machine("node1", numa_nodes=2, cpu_numa_nodes=[0])
    recording.gpus = [replace(gpu, numa_node=gpu.index) for gpu in recording.gpus]
    text = _remarks(recording)
    assert "GPU 1: attached to another NUMA node than the cores that the job may use (node 0)" in text
    assert "GPU 0: attached" not in text


def test_energy_that_does_not_move_is_not_measured() -> None:
    assert analyse(_with_gpu(energy_j=5000.0, power_w=None)).energy_j is None
    assert analyse(_with_gpu(energy_j=5000.0, power_w=100.0)).energy_j == pytest.approx(10_000)
