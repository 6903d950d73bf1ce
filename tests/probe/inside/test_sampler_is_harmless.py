"""A program with the sampler in it does what it does without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("psutil")

from gpulint_probe.inside.reader import SHIM, InsideReader
from gpulint_probe.inside.records import Process, Stack, StackCounts
from gpulint_probe.recording import Recording

PROBE = [sys.executable, "-m", "gpulint", "probe", "--source", "none", "--interval", "0.1", "-q"]
BUSY = "import time\nend = time.time() + {}\nwhile time.time() < end: sum(range(1000))\n"


def _probe(
    *command: str, recording: Path | None = None, options: tuple[str, ...] = (), **environment: str
) -> subprocess.CompletedProcess[str]:
    written = ["-o", str(recording)] if recording else []
    return subprocess.run(
        [*PROBE, *written, *options, "--", *command], capture_output=True, text=True, timeout=60,
        env={**os.environ, **environment},
    )  # fmt: skip


def _places(path: Path) -> set[str]:
    recording = Recording.read(path)
    return {
        f"{Path(file).name}:{function}"
        for stack in recording.stacks
        for file, function in zip(stack.files, stack.functions, strict=True)
    }


def test_stacks_of_the_program_are_recorded_with_their_lines(tmp_path: Path) -> None:
    program = tmp_path / "job.py"
    program.write_text("import time\ndef wait():\n    time.sleep(1.5)\nwait()\n")
    assert _probe(sys.executable, str(program), recording=tmp_path / "r").returncode == 0
    recording = Recording.read(tmp_path / "r")
    (stack,) = [stack for stack in recording.stacks if stack.functions[:1] == ["wait"]]
    assert (stack.files[0], stack.lines[:2], stack.call) == (str(program), [3, 4], "time.sleep")
    (process,) = recording.processes
    assert process.command[-1] == str(program)
    counted = [counts for counts in recording.stack_counts if stack.id in counts.stacks]
    assert sum(counts.seconds for counts in counted) == pytest.approx(1.5, abs=0.7)
    assert sum(sum(counts.running) for counts in counted) <= 1  # it slept


def test_without_evidence_from_inside_nothing_of_it_is_in_the_environment_or_the_recording(tmp_path: Path) -> None:
    code = "import os; print(os.environ.get('PYTHONPATH'), os.environ.get('GPULINT_INSIDE'))"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [*PROBE, "-o", str(tmp_path / "r"), "--no-inside", "--", sys.executable, "-c", code],
        capture_output=True, text=True, timeout=60, env={**environment, "PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    assert done.stdout == f"{':'.join(sys.path)} None\n"
    recording = Recording.read(tmp_path / "r")
    assert (recording.stacks, recording.stack_counts) == ([], [])
    assert "the Python stacks of the job's processes" in recording.blind_spots


def test_the_path_and_the_modules_are_as_without(tmp_path: Path) -> None:
    code = "import sys; print(sys.path); print(sorted(m for m in sys.modules if 'gpulint' in m)); print(sys.argv)"
    bare = subprocess.run([sys.executable, "-c", code, "x"], capture_output=True, text=True, timeout=60, check=True)
    probed = _probe(sys.executable, "-c", code, "x")
    assert probed.stdout.replace("['_gpulint_plain', '_gpulint_sampler']", "[]") == bare.stdout
    assert str(SHIM) not in probed.stdout


@pytest.mark.parametrize(("given", "threads", "kept"), [(0.005, 0, False), (0.005, 1, True), (0.02, 0, True)])
def test_the_interpreter_is_claimed_earlier_only_where_no_thread_of_the_program_notices(
    given: float, threads: int, kept: bool
) -> None:
    code = (
        "import sys, threading, time\n"
        f"sys.setswitchinterval({given})\n"
        "early, late = [], []\n"
        "def burn():\n"
        "    end = time.time() + 2\n"
        "    while time.time() < end: (late if time.time() > end - 1 else early).append(sys.getswitchinterval()); sum(range(1000))\n"
        f"for _ in range({threads}): threading.Thread(target=burn, daemon=True).start()\n"
        "burn()\n"
        f"print(min(late if {kept} else early + late))"  # a thread is noticed by the samples of its first second
    )
    assert (float(_probe(sys.executable, "-c", code).stdout) == pytest.approx(given)) is kept


@pytest.mark.parametrize(("name", "runs"), [("pt_autograd_0", True), ("pt_elastic", False)])
def test_a_backward_pass_in_a_thread_of_its_own_counts_as_running(tmp_path: Path, name: str, runs: bool) -> None:
    """As on a GPU: the thread that calls it sleeps."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").touch()
    (tmp_path / "torch" / "autograd.py").write_text("def backward(done): done.acquire()\n")
    (tmp_path / "job.py").write_text(
        "import threading, time, zlib\n"
        "from torch.autograd import backward\n"
        "def work(data=bytes(1 << 24)):\n"
        f"    open(f'/proc/self/task/{{threading.get_native_id()}}/comm', 'w').write({name!r})\n"
        "    end = time.thread_time() + 2\n"
        "    while time.thread_time() < end: zlib.crc32(data)\n"
        "    done.release()\n"
        "done = threading.Lock()\n"
        "done.acquire()\n"
        "threading.Thread(target=work).start()\n"
        "backward(done)\n"
    )
    assert _probe(sys.executable, str(tmp_path / "job.py"), recording=tmp_path / "r").returncode == 0
    recording = Recording.read(tmp_path / "r")
    slept = [stack.id for stack in recording.stacks if stack.modules[0] == "torch.autograd"]
    counted = [
        (samples, running) for counts in recording.stack_counts if counts.thread == "main"
        for stack, samples, running in zip(counts.stacks, counts.samples, counts.running, strict=True)
        if stack in slept
    ]  # fmt: skip
    assert (2 * sum(running for _, running in counted) > sum(samples for samples, _ in counted)) is runs


def test_ranks_are_sampled_at_the_same_moments(tmp_path: Path) -> None:
    code = (
        f"import sys, time; sys.path.insert(0, {str(SHIM)!r}); import _gpulint_sampler as of\n"
        f"ranks = [of.Sampler({f'1 {tmp_path}'!r}) for _ in range(2)]\n"
        "ranks[1].period_s *= 4\n"
        "def planned(rank, start):\n"
        "    now = [start]; time.time = lambda: now[0]\n"
        "    for _ in range(400):\n"
        "        now[0] += rank.pause(0.0); yield round(now[0], 4); now[0] += 1e-6\n"
        "print([sorted(planned(rank, 1e9 + 0.013 * at)) for at, rank in enumerate(ranks)])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True,
        env={**os.environ, "RANK": "0"},
    )  # fmt: skip
    often, seldom = json.loads(done.stdout)
    shared = [moment for moment in seldom if moment <= often[-1]]
    assert (often[-1] - often[0]) / 399 == pytest.approx(0.05, rel=0.05)
    assert len(shared) >= 90
    assert set(shared[1:]) <= set(often)


def test_the_environments_own_sitecustomize_runs_and_its_errors_are_its_own(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    module = own / "sitecustomize.py"
    module.write_text("import sys\nsys.marked = __file__\n")
    path = os.pathsep.join([str(own), *filter(None, sys.path)])
    done = _probe(
        sys.executable, "-c", "import sys, sitecustomize as s; print(sys.marked, s.__file__)", PYTHONPATH=path
    )
    assert done.stdout == f"{module} {module}\n"
    module.write_text("raise ValueError('of my own')\n")
    bare = subprocess.run(
        [sys.executable, "-c", "print(1)"], capture_output=True, text=True, timeout=60,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    done = _probe(sys.executable, "-c", "print(1)", PYTHONPATH=path)
    assert (done.stdout, done.stderr) == (bare.stdout, 2 * bare.stderr)  # the probe's own Python says it as well
    assert "of my own" in done.stderr


@pytest.mark.parametrize("flag", ["-I", "-S", "-E"])
def test_isolated_interpreters_run_without_evidence(flag: str, tmp_path: Path) -> None:
    done = _probe(sys.executable, flag, "-c", BUSY.format(0.6) + "print('end')", recording=tmp_path / "r")
    assert (done.stdout, done.returncode) == ("end\n", 0)
    recording = Recording.read(tmp_path / "r")
    assert recording.stack_counts == [] or flag == "-S"


def test_forked_spawned_and_started_processes_are_sampled_each(tmp_path: Path) -> None:
    program = tmp_path / "job.py"
    program.write_text(
        "import multiprocessing as mp, os, subprocess, sys, time\n"
        "def in_child():\n    time.sleep(1)\n    os._exit(0)\n"
        "if __name__ == '__main__':\n"
        "    for method in ('fork', 'spawn', 'forkserver'):\n"
        "        child = mp.get_context(method).Process(target=in_child)\n        child.start()\n        child.join()\n"
        "    subprocess.run([sys.executable, '-c', 'import time; time.sleep(1)'])\n"
    )
    done = _probe(sys.executable, str(program), recording=tmp_path / "r")
    assert (done.returncode, done.stderr) == (0, "")
    recording = Recording.read(tmp_path / "r")
    in_child = {stack.id for stack in recording.stacks if "in_child" in stack.functions}
    sampled = {counts.pid for counts in recording.stack_counts if in_child & set(counts.stacks)}
    assert len(sampled) == 3
    assert len({counts.pid for counts in recording.stack_counts}) >= 5


def test_a_fork_gives_no_warning_about_threads(tmp_path: Path) -> None:
    code = "import os\nfor _ in range(20):\n    pid = os.fork()\n    if not pid: os._exit(0)\n    os.waitpid(pid, 0)\nprint('end')"
    done = _probe(sys.executable, "-W", "error", "-c", code)
    assert (done.stdout, done.stderr, done.returncode) == ("end\n", "", 0)


def test_signals_that_the_program_blocks_stay_blocked() -> None:
    code = (
        "import os, signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})\n"
        "os.kill(os.getpid(), signal.SIGUSR1)\nprint(signal.sigwait({signal.SIGUSR1}).name)"
    )
    assert _probe(sys.executable, "-c", code).stdout == "SIGUSR1\n"


def test_a_program_that_closes_all_descriptors_and_lists_its_threads_is_not_disturbed(tmp_path: Path) -> None:
    target = tmp_path / "own"
    code = (
        "import os, threading, time\nos.closerange(3, 256)\nprint(threading.active_count())\n"
        f"file = open({str(target)!r}, 'w')\nfile.write('mine')\nfile.flush()\ntime.sleep(1)\nfile.close()"
    )
    assert _probe(sys.executable, "-c", code).stdout == "1\n"
    assert target.read_text() == "mine"


def test_the_main_thread_keeps_the_slack_of_its_timer() -> None:
    """The sampler's thread takes over a smaller one, which is set before the program's first line and reset then."""
    code = "import os; print(open(f'/proc/{os.getpid()}/timerslack_ns').read().strip())"
    bare = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert _probe(sys.executable, "-c", code).stdout == bare.stdout


def test_the_thread_imports_nothing(tmp_path: Path) -> None:
    """An import in the thread once took part in the import locks of pip and stopped it for ever."""
    code = "import sys, time\nbefore = set(sys.modules)\ntime.sleep(1.2)\nprint(sorted(set(sys.modules) - before))"
    assert _probe(sys.executable, "-c", code, recording=tmp_path / "r").stdout == "[]\n"
    assert Recording.read(tmp_path / "r").stack_counts


def test_objects_die_when_they_would_without() -> None:
    code = (
        "import time, weakref\nclass Big: pass\n"
        "def hold():\n    big = Big()\n    ref = weakref.ref(big)\n    time.sleep(0.6)\n    return ref\n"
        "print(hold()())"
    )
    assert _probe(sys.executable, "-c", code).stdout == "None\n"


def test_when_the_folder_goes_away_the_program_runs_on(tmp_path: Path) -> None:
    environment = InsideReader(0.1)
    started = subprocess.Popen(
        [sys.executable, "-c", BUSY.format(1.5) + "print('end')"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env=environment.environment(os.environ),
    )  # fmt: skip
    environment.close()
    assert started.communicate(timeout=60) == ("end\n", "")


def test_what_is_no_line_of_the_sampler_is_passed_over(tmp_path: Path) -> None:
    reader = InsideReader(0.1)
    lines = [
        {"pid": 7, "parent": 1, "time": 5.0, "command": ["x"], "rank": None, "local_rank": 2},
        {"code": 0, "names": ["m", "f", "/no/such.py"]},
        {"stack": 0, "frames": [[0, 3]], "place": None},
        {"stack": 1, "frames": [[99, 3]], "place": None},
        {"from": 5.0, "to": 6.0, "main": True, "thread": "main", "cpu_s": 0.5, "lag_s": 0.0, "delay_s": 0.1,
         "counts": [[0, 4, 3, 0]]},
        {"counts": "soon"}, {"pid": "x"}, 4,
    ]  # fmt: skip
    text = "".join(json.dumps(line) + "\n" for line in lines) + "not JSON\n" + '{"pid": 8'
    (reader.folder / "7-1.jsonl").write_text(text)
    process, stack, counts = reader.read()
    assert isinstance(process, Process)
    assert (process.pid, process.local_rank) == (7, 2)
    assert isinstance(stack, Stack)
    assert (stack.files, stack.lines, stack.call) == (["/no/such.py"], [3], "")
    assert isinstance(counts, StackCounts)
    assert (counts.stacks, counts.samples, counts.running, counts.seconds) == ([stack.id], [4], [3], 1.0)
    assert reader.read() == []
    reader.close()
    assert not reader.folder.exists()


def test_allocator_counters_are_read_and_cuda_is_never_started(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(
        "class cuda:\n    started = False\n"
        "    is_initialized = staticmethod(lambda: cuda.started)\n"
        "    @staticmethod\n    def memory_stats(device):\n        assert cuda.started and device < 1\n"
        "        return {'num_alloc_retries': 3, 'reserved_bytes.all.current': 100}\n"
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    for started, expected in ((False, []), (True, [3])):
        code = f"import torch, time\ntorch.cuda.started = {started}\ntime.sleep(1)"
        assert _probe(sys.executable, "-c", code, recording=tmp_path / "r", PYTHONPATH=path).returncode == 0
        found = [sample.retries for sample in Recording.read(tmp_path / "r").allocations]
        assert sorted(set(found)) == expected
