"""What the kernel's files say, read from trees that a test writes; and the same files of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

pytest.importorskip("psutil")

from gpulint_probe.host import HostSampler
from gpulint_probe.machine import numa, storage
from gpulint_probe.machine.cgroup import ControlGroup
from gpulint_probe.machine.counters import MachineCounters
from gpulint_probe.machine.describe import describe
from gpulint_probe.machine.network import Fabric, infiniband, nfs_read_bytes
from gpulint_probe.machine.reading import cores
from gpulint_probe.machine.threads import ThreadSampler


def _put(root: Path, files: Mapping[str, str]) -> None:
    for path, content in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)


def test_the_tightest_limit_of_the_groups_above_counts(tmp_path: Path) -> None:
    _put(
        tmp_path,
        {
            "proc/self/cgroup": "0::/slurm/job_1/step_0\n",
            "sys/fs/cgroup/slurm/cpu.max": "max 100000\n",
            "sys/fs/cgroup/slurm/job_1/cpu.max": "250000 100000\n",
            "sys/fs/cgroup/slurm/job_1/memory.max": "8589934592\n",
            "sys/fs/cgroup/slurm/job_1/step_0/cpu.max": "400000 100000\n",
            "sys/fs/cgroup/slurm/job_1/step_0/memory.max": "max\n",
        },
    )
    group = ControlGroup(root=tmp_path)
    assert group.cpu_limit == 2.5
    assert group.memory_limit == 8 << 30


def test_limits_of_version_1(tmp_path: Path) -> None:
    _put(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/job\n2:cpuset:/\n1:cpu,cpuacct:/job\n0::/\n",
            "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "150000\n",
            "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/cpu/job/cpu.stat": "nr_periods 100\nnr_throttled 30\nthrottled_time 9\n",
            "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "1073741824\n",
        },
    )
    group = ControlGroup(root=tmp_path)
    assert (group.cpu_limit, group.memory_limit) == (1.5, 1 << 30)
    assert group.limited_seconds() == 3.0


def test_a_container_whose_path_is_one_of_the_host_reads_its_own_group(tmp_path: Path) -> None:
    _put(
        tmp_path,
        {
            "proc/self/cgroup": "0::/kubepods/pod1/abc\n",
            "sys/fs/cgroup/cpu.max": "300000 100000\n",
        },
    )
    assert ControlGroup(root=tmp_path).cpu_limit == 3


def test_no_limit_is_none(tmp_path: Path) -> None:
    _put(
        tmp_path,
        {
            "proc/self/cgroup": "1:cpu:/\n2:memory:/\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
    )
    group = ControlGroup(root=tmp_path)
    assert (group.cpu_limit, group.memory_limit) == (None, None)
    empty = ControlGroup(root=tmp_path / "nothing")
    assert (empty.cpu_limit, empty.memory_limit, empty.limited_seconds(), empty.stalled_seconds("io", tmp_path)) == (
        None, None, None, None,
    )  # fmt: skip


def test_shares_of_an_interval_come_from_counters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("gpulint_probe.machine.counters.time.monotonic", lambda: now[0])
    _put(
        tmp_path,
        {
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/cpu.max": "200000 100000\n",
            "sys/fs/cgroup/cpu.stat": "usage_usec 1\nnr_periods 50\nnr_throttled 10\n",
            "sys/fs/cgroup/io.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\nfull total=1\n",
            "proc/vmstat": "pgfault 5\npgmajfault 40\n",
            "proc/meminfo": "MemTotal: 10 kB\nCached: 2048 kB\n",
            "sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data": "1000",
            "sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data": "500",
            "sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error": "2",
        },
    )
    counters = MachineCounters(root=tmp_path)
    now[0] += 2
    _put(
        tmp_path,
        {
            "sys/fs/cgroup/cpu.stat": "usage_usec 1\nnr_periods 70\nnr_throttled 25\n",
            "sys/fs/cgroup/io.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\nfull total=1\n",
            "proc/vmstat": "pgfault 5\npgmajfault 60\n",
            "sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data": "3000",
            "sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data": "100",
        },
    )
    found = counters.sample()
    assert found["cpu_limited"] == 0.75  # 15 periods of 100 ms in 2 s
    assert found["io_stalled"] == 0.25
    assert (found["cpu_stalled"], found["nfs_read_bytes_s"]) == (None, None)
    assert found["major_faults_s"] == 10
    assert found["page_cache_bytes"] == 2 << 20
    assert found["ib_rx_bytes_s"] == 4000  # 2000 units of four bytes in 2 s
    assert found["ib_tx_bytes_s"] is None  # a counter that falls is a port that was reset
    assert found["ib_errors"] == 2


def test_nodes_of_cores_and_cards(tmp_path: Path) -> None:
    _put(
        tmp_path,
        {
            "sys/devices/system/node/node0/cpulist": "0-3,8-11\n",
            "sys/devices/system/node/node1/cpulist": "4-7\n",
            "sys/bus/pci/devices/0000:3b:00.0/numa_node": "1\n",
            "sys/bus/pci/devices/0000:af:00.0/numa_node": "-1\n",
        },
    )
    assert numa.nodes_of({8, 9}, tmp_path) == [0]
    assert numa.nodes_of({1, 4}, tmp_path) == [0, 1]
    assert numa.node_of_pci("00000000:3B:00.0", tmp_path) == 1
    assert numa.node_of_pci("00000000:AF:00.0", tmp_path) is None
    assert numa.node_of_pci("00000000:00:00.0", tmp_path) is None
    assert cores("0-2,5") == {0, 1, 2, 5}
    assert cores("") == cores("x") == set()


MOUNTINFO = """\
22 1 259:1 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p1 rw
60 22 0:51 / /data rw - nfs4 filer:/export/my\\040data rw,vers=4.2
61 60 0:52 / /data/local rw - xfs /dev/nvme1n1 rw
62 22 0:53 / /scratch rw - lustre 10.0.0.1@o2ib:/scratch rw
"""


def test_the_file_systems_of_open_files(tmp_path: Path) -> None:
    _put(tmp_path, {"proc/7/mountinfo": MOUNTINFO})
    folder = tmp_path / "proc/7/fd"
    folder.mkdir()
    for number, target in enumerate(
        ["/data/train/0001.tar", "/data/local/x", "/dev/null", "pipe:[12]", "/proc/self/maps", "/scratch/a (deleted)"]
    ):
        (folder / str(number)).symlink_to(target)
    found = storage.used_by([7, 8], tmp_path)
    assert {(mount.path, mount.type, mount.network) for mount in found} == {
        ("/data", "nfs4", True),
        ("/data/local", "xfs", False),
        ("/scratch", "lustre", True),
    }
    assert storage.of_file("/data", storage.mounted(7, tmp_path)) == ("/data", "nfs4", "filer:/export/my data")
    assert storage.of_file("/database", storage.mounted(7, tmp_path)) == ("/", "ext4", "/dev/nvme0n1p1")


def test_counters_of_nfs_clients(tmp_path: Path) -> None:
    mounts = (
        "device filer:/a mounted on /a with fstype nfs4 statvers=1.1\n\tage: 10\n\tbytes:\t1 2 3 4 500 600 7 8\n"
        "device filer:/b mounted on /b with fstype nfs4 statvers=1.1\n\tbytes:\t1 2 3 4 50 60 7 8\n"
    )
    _put(tmp_path, {"proc/self/mountstats": mounts})
    assert nfs_read_bytes(tmp_path) == 550
    assert nfs_read_bytes(tmp_path / "none") is None
    assert infiniband(tmp_path) is None
    _put(tmp_path, {"sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_errors": "5"})
    assert infiniband(tmp_path) == Fabric(0, 0, 5)


BURN = """
import threading, time
def burn():
    end = time.monotonic() + 20
    while time.monotonic() < end: pass
threading.Thread(target=burn, daemon=True).start()
print(threading.enumerate()[-1].native_id, flush=True)
time.sleep(20)
"""


def test_one_busy_thread_of_a_process_is_found() -> None:
    with subprocess.Popen([sys.executable, "-c", BURN], stdout=subprocess.PIPE, text=True) as job:
        try:
            assert job.stdout is not None
            tid = int(job.stdout.readline())
            sampler = ThreadSampler()
            assert sampler.sample([job.pid]) is None  # nothing to compare with yet
            found = None
            while not found:  # a full machine may not let it run at once
                time.sleep(0.6)
                found = sampler.sample([job.pid])
            assert [(thread["pid"], thread["tid"]) for thread in found] == [(job.pid, tid)]
            assert 0.05 <= found[0]["cpu_share"] <= 1
        finally:
            job.kill()


def test_a_thread_name_may_hold_parentheses(tmp_path: Path) -> None:
    now = "R " + " ".join(["0"] * 10)
    _put(tmp_path, {"proc/5/task/6/stat": f"6 (a (b) c) {now} 100 0 0"})
    sampler = ThreadSampler(tmp_path)
    sampler.sample([5])
    sampler._time -= 1  # a second ago
    _put(tmp_path, {"proc/5/task/6/stat": f"6 (a (b) c) {now} 140 10 0"})
    found = sampler.sample([5])
    assert found is not None and found[0]["name"] == "a (b) c"
    assert found[0]["cpu_share"] == pytest.approx(50 / os.sysconf("SC_CLK_TCK"), rel=0.1)


def test_the_sampler_names_a_file_system_once(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("x")
    program = f"import time; f = open({str(tmp_path / 'data')!r}); print(1, flush=True); time.sleep(20)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as job:
        try:
            assert job.stdout is not None
            job.stdout.readline()
            sampler = HostSampler(job.pid)
            (mount,) = sampler.mounts()
            own = storage.of_file(str(tmp_path.resolve()), storage.mounted())
            assert own is not None and (mount.path, mount.type) == (own.path, own.type)
            sampler._looked = float("-inf")
            assert sampler.mounts() == []
        finally:
            job.kill()


def test_the_machine_is_described_with_its_rank(tmp_path: Path) -> None:
    _put(
        tmp_path,
        {
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/cpu.max": "800000 100000\n",
            "sys/devices/system/node/node0/cpulist": "0-1023",
            "proc/44/comm": "nvidia-cuda-mps\n",
        },
    )
    found = describe({"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8"}, root=tmp_path)
    assert (found.cpu_limit, found.numa_nodes, found.cpu_numa_nodes, found.mps) == (8, 1, [0], True)
    assert (found.rank, found.local_rank, found.world_size, found.launcher) == (3, 1, 8, "torchrun")
    assert found.host
    assert describe({}, root=tmp_path / "none").mps is False
