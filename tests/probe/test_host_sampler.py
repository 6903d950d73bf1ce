"""What is counted of the processes of a job, as they come and go."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

pytest.importorskip("psutil")

from gpulint_probe.host import HostSampler
from gpulint_probe.recording import HostSample

STEPPED = """
import subprocess, sys, time
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
BURN = "import time\\nend = time.process_time() + 0.8\\nwhile time.process_time() < end: pass"
children = []
for line in sys.stdin:
    exec(line)
    print("done", flush=True)
"""


class _Stepped:
    """A job that does one thing at a time."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", STEPPED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.do("pass")

    def do(self, step: str) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(step + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"


@pytest.fixture
def job() -> Iterator[_Stepped]:
    job = _Stepped()
    yield job
    job.process.kill()
    job.process.communicate()


def _cpu_s(sampler: HostSampler, previous_s: float) -> tuple[float, HostSample]:
    """CPU seconds since the last sample, and the sample."""
    sample = sampler.sample()
    assert sample is not None
    return sample.cpu_cores_used * (sample.time_s - previous_s), sample


def test_what_a_child_used_is_counted_once_also_when_it_has_ended(job: _Stepped) -> None:
    sampler = HostSampler(job.process.pid)
    _, last = _cpu_s(sampler, 0)
    total = 0.0
    for step in [
        "children.append(subprocess.Popen([sys.executable, '-c', BURN + '\\ninput()'], stdin=subprocess.PIPE))",
        "time.sleep(2)",
        "children.pop().communicate(b'\\n')",
        "subprocess.run([sys.executable, '-c', BURN])",
        "burn(0.4)",
        "pass",
    ]:
        job.do(step)
        sampler._searched = float("-inf")
        used, last = _cpu_s(sampler, last.time_s)
        assert used >= 0
        total += used
    # 0.8, 0.8 and 0.4 s, and what starting Python takes.
    assert 1.95 <= total <= 2.6


def test_a_child_that_is_found_late_does_not_bring_its_whole_past_into_one_sample(
    job: _Stepped, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpulint_probe.host._TREE_S", 1000.0)
    sampler = HostSampler(job.process.pid)
    _cpu_s(sampler, 0)
    job.do("children.append(subprocess.Popen([sys.executable, '-c', BURN + '\\ninput()'], stdin=subprocess.PIPE))")
    job.do("time.sleep(2)")
    _, last = _cpu_s(sampler, 0)  # too early for a new search
    assert last.processes == 1
    sampler._searched = float("-inf")
    used, last = _cpu_s(sampler, last.time_s)
    assert last.processes == 2
    assert used < 0.2


def test_a_process_whose_parent_died_still_belongs_to_the_job(job: _Stepped) -> None:
    job.do(
        "children.append(subprocess.Popen([sys.executable, '-c', 'import subprocess, sys;"
        ' subprocess.Popen(["sleep", "20"]); print(1, flush=True); input()\'],'
        " stdin=subprocess.PIPE, stdout=subprocess.PIPE)); children[0].stdout.readline()"
    )
    sampler = HostSampler(job.process.pid)
    assert len(sampler.pids) == 3
    job.do("children[0].stdin.close(), children[0].wait()")
    sample = sampler.sample()
    assert sample is not None
    assert sample.processes == 2


def test_writing_to_disk_is_seen(job: _Stepped, tmp_path: object) -> None:
    sampler = HostSampler(job.process.pid)
    _, last = _cpu_s(sampler, 0)
    if last.disk_write_bytes_s is None:
        pytest.skip("this system does not tell what processes write")
    job.do(f"open({str(tmp_path)!r} + '/x', 'wb').write(bytes(20_000_000))")
    sample = sampler.sample()
    assert sample is not None and sample.disk_write_bytes_s is not None
    written = sample.disk_write_bytes_s * (sample.time_s - last.time_s)
    assert written == pytest.approx(20_000_000, rel=0.1)


def test_a_job_that_is_gone_has_no_sample(job: _Stepped) -> None:
    sampler = HostSampler(job.process.pid)
    job.process.kill()
    job.process.wait()
    assert sampler.sample() is None
    assert HostSampler(999_999_999).sample() is None
