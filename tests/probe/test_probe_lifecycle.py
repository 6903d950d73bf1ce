"""A probed job is the same job: output, terminal, signals and exit code are those of a bare start."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("psutil")

from gpulint_probe.recording import Recording

from gpulint.cli import main

PROBE = [sys.executable, "-m", "gpulint", "probe", "--source", "none", "--interval", "0.1"]
COUNTS = """
import os, select, signal, sys
WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
reader, writer = os.pipe()
os.set_blocking(writer, False)
signal.set_wakeup_fd(writer)  # a byte for each, however close they come
for number in WATCHED:
    signal.signal(number, lambda number, frame: None)
print('ready', flush=True)
got = []
while select.select([reader], [], [], 1.5 if got else 20)[0]:
    got += [signal.Signals(number).name for number in os.read(reader, 100) if number in WATCHED]
print('got', *got, flush=True)
sys.exit(5)
"""


def _probe(*command: str, options: list[str] | None = None, **more: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(  # type: ignore[call-overload,no-any-return]
        [*PROBE, *(options or []), "--", *command], capture_output=True, timeout=60, **more
    )


def _python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def _until(process: subprocess.Popen[bytes], word: bytes) -> bytes:
    assert process.stdout is not None
    for line in process.stdout:
        if word in line:
            return line
    raise AssertionError(f"{word!r} never came")


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (_python("import sys; sys.exit(0)"), 0),
        (_python("import sys; sys.exit(3)"), 3),
        (["sh", "-c", "kill -KILL $$"], 137),
        (["sh", "-c", "kill -SEGV $$"], 139),
        (["no-such-command"], 127),
        (["/"], 126),
    ],
)
def test_the_exit_code_is_the_jobs(command: list[str], code: int) -> None:
    found = _probe(*command)
    assert found.returncode == code
    assert b"Traceback" not in found.stderr


def test_output_is_passed_on_byte_by_byte_and_each_stream_to_its_own_place(tmp_path: Path) -> None:
    code = (
        "import os; os.write(1, bytes(range(256)) * 1000); os.write(2, b'to the error stream'); os.write(1, b'no end')"
    )
    found = _probe(*_python(code))
    assert found.stdout == bytes(range(256)) * 1000 + b"no end"
    assert found.stderr.startswith(b"to the error stream")


def test_streams_that_share_a_file_keep_their_order(tmp_path: Path) -> None:
    target = tmp_path / "log"
    code = "import os\nfor i in range(200): os.write(1 + i % 2, b'%d\\n' % i)"
    with target.open("wb") as file:
        subprocess.run([*PROBE, "--", *_python(code)], stdout=file, stderr=file, timeout=60, check=True)
    assert target.read_bytes().startswith(b"".join(b"%d\n" % number for number in range(200)))


def test_input_reaches_the_job() -> None:
    assert _probe("cat", input=b"hello").stdout == b"hello"


def test_with_no_log_the_job_has_the_very_same_output(tmp_path: Path) -> None:
    target = tmp_path / "log"
    code = "import os; s = os.fstat(1); print(s.st_dev, s.st_ino)"
    with target.open("wb") as file:
        subprocess.run([*PROBE, "--no-log", "--", *_python(code)], stdout=file, timeout=60, check=True)
    status = target.stat()
    assert target.read_text().split() == [str(status.st_dev), str(status.st_ino)]


def test_descriptors_that_were_handed_down_stay_open() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"x")
    found = _probe(*_python(f"import os; print(os.read({reader}, 1))"), pass_fds=[reader])
    assert found.stdout == b"b'x'\n"


@pytest.mark.parametrize("whole_group", [False, True])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_reaches_the_job_once(number: signal.Signals, whole_group: bool) -> None:
    with subprocess.Popen([*PROBE, "--", *_python(COUNTS)], stdout=subprocess.PIPE, start_new_session=True) as process:
        _until(process, b"ready")
        with _held(process.pid):
            (os.killpg if whole_group else os.kill)(process.pid, number)
        assert process.stdout is not None
        assert process.stdout.read().splitlines()[0] == f"got {number.name}".encode()
    assert process.returncode == 5


def test_a_job_that_ends_by_the_signal_says_so() -> None:
    code = "import time; print('ready', flush=True); time.sleep(30)"
    with subprocess.Popen([*PROBE, "--", *_python(code)], stdout=subprocess.PIPE, start_new_session=True) as process:
        _until(process, b"ready")
        process.terminate()
    assert process.returncode == 128 + signal.SIGTERM


def test_a_probe_that_was_suspended_goes_on() -> None:
    code = "print('ready', flush=True); input(); raise SystemExit(5)"
    with subprocess.Popen(
        [*PROBE, "--", *_python(code)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        _until(process, b"ready")
        with _held(process.pid, 1.5):
            pass
        process.communicate(b"\n")
    assert process.returncode == 5


def test_watching_goes_on_after_a_suspension(tmp_path: Path) -> None:
    output = tmp_path / "run.jsonl"
    job = subprocess.Popen(_python("input()"), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    watcher = subprocess.Popen([*PROBE, "-o", output, "--pid", str(job.pid)], stderr=subprocess.DEVNULL)
    _wait_for_samples(output)
    with _held(watcher.pid, 1.0):
        pass
    before = len(Recording.read(output).host_samples)
    _wait_for_samples(output, before + 1)
    job.communicate(b"\n")
    assert watcher.wait(30) == 0


@contextlib.contextmanager
def _held(pid: int, seconds: float = 0.3) -> Iterator[None]:
    """Stop the probe for a moment: signals that come twice at the same time would count as one."""
    os.kill(pid, signal.SIGSTOP)
    yield
    time.sleep(seconds)
    os.kill(pid, signal.SIGCONT)


def _on_terminal(command: list[str], keys: dict[bytes, bytes], size: tuple[int, int] = (40, 100)) -> tuple[str, int]:
    """What a command shows on a terminal, on which ``keys`` are typed when a word has appeared; its exit code."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, b"".join(n.to_bytes(2, sys.byteorder) for n in (*size, 0, 0)))
    shown = b""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            piece = os.read(terminal, 4096)
        except OSError:
            break
        shown += piece
        for word in [word for word in keys if word in shown]:
            with _held(pid) if keys[word] == b"\x03" else contextlib.nullcontext():
                os.write(terminal, keys.pop(word))
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    return shown.decode(), os.waitstatus_to_exitcode(status)


def test_on_a_terminal_the_job_has_a_terminal_of_the_same_size() -> None:
    code = (
        "import os, sys; input('go '); print([s.isatty() for s in (sys.stdin, sys.stdout, sys.stderr)],"
        " os.get_terminal_size())"
    )
    shown, status = _on_terminal([*PROBE, "--", *_python(code)], {b"go ": b"\n"})
    assert "[True, True, True] os.terminal_size(columns=100, lines=40)" in shown
    assert status == 0


def test_line_ends_on_a_terminal_are_those_of_a_bare_start() -> None:
    command = _python("print('one'); print('two')")
    bare, _ = _on_terminal(command, {})
    probed, _ = _on_terminal([*PROBE, "--", *command], {})
    assert probed.startswith(bare)


def test_ctrl_c_on_a_terminal_reaches_the_job_once() -> None:
    shown, status = _on_terminal([*PROBE, "--", *_python(COUNTS)], {b"ready": b"\x03"})
    assert re.search(r"got ([\w ]+)", shown)[1] == "SIGINT"  # type: ignore[index]
    assert status == 5


def test_what_the_job_leaves_behind_does_not_hold_the_probe() -> None:
    found = _probe("sh", "-c", "sleep 90 & echo done")  # longer than _probe waits
    assert found.stdout == b"done\n"


def test_a_reader_that_goes_away_ends_the_job_like_a_bare_one() -> None:
    shell = f"{' '.join(PROBE)} -- sh -c 'yes; echo $? >&2' | head -1"
    found = subprocess.run(["bash", "-c", shell], capture_output=True, timeout=60, check=True)
    assert found.stdout == b"y\n"


def test_a_killed_probe_leaves_a_recording_that_can_be_read(tmp_path: Path) -> None:
    output = tmp_path / "run.jsonl"
    code = "import os, time; time.sleep(1); print('ready', os.getpid(), flush=True); time.sleep(30)"
    # What a killed probe cannot delete, the test does.
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [*PROBE, "-o", output, "--", *_python(code)], stdout=subprocess.PIPE, env=environment
    ) as process:
        job = int(_until(process, b"ready").split()[1])
        process.kill()
        process.wait()
        os.kill(job, signal.SIGKILL)  # raises if the probe took its job along
    recording = Recording.read(output)
    assert recording.host_samples
    assert recording.ended is None


def test_marks_come_from_the_log_while_the_job_runs(tmp_path: Path) -> None:
    output = tmp_path / "run.jsonl"
    code = "import sys\nprint('Epoch 1/2')\nprint('\\r 10%|#  | 10/100 [00:01<00:09]', end='', file=sys.stderr)\nprint('Epoch 2/2')"
    _probe(*_python(code), options=["-o", str(output)])
    recording = Recording.read(output)
    assert [(mark.kind, mark.value) for mark in recording.marks if mark.kind == "epoch"] == [("epoch", 1), ("epoch", 2)]
    assert recording.command == _python(code)
    assert recording.exit_code == 0


def _wait_for_samples(output: Path, count: int = 1) -> None:
    end = time.monotonic() + 40
    while not (output.exists() and output.read_text().count('"line":"host"') >= count):
        assert time.monotonic() < end, "no sample was taken"
        time.sleep(0.05)


def test_a_running_process_is_watched_until_it_ends(tmp_path: Path) -> None:
    output = tmp_path / "run.jsonl"
    job = subprocess.Popen(_python("input('a job')"), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    watcher = subprocess.Popen([*PROBE, "-o", output, "--pid", str(job.pid)], stderr=subprocess.DEVNULL)
    _wait_for_samples(output)
    job.communicate(b"\n")
    assert watcher.wait(30) == 0
    recording = Recording.read(output)
    assert recording.ended is not None
    assert recording.exit_code is None
    assert "a job" in recording.command[-1]


def test_ctrl_c_ends_the_watching_of_a_running_process_but_not_the_process(tmp_path: Path) -> None:
    output = tmp_path / "run.jsonl"
    job = subprocess.Popen(["sleep", "60"])
    try:
        watcher = subprocess.Popen([*PROBE, "-o", output, "--pid", str(job.pid)], stderr=subprocess.DEVNULL)
        _wait_for_samples(output)
        watcher.send_signal(signal.SIGINT)
        assert watcher.wait(30) == 0
        assert job.poll() is None
    finally:
        job.kill()
        job.wait()
    assert Recording.read(output).ended is not None


def test_after_the_duration_the_job_runs_on_unwatched(tmp_path: Path) -> None:
    output = tmp_path / "run.jsonl"
    found = _probe(
        *_python("import time; time.sleep(2); print('end')"), options=["-o", str(output), "--duration", "500ms"]
    )
    assert found.stdout == b"end\n"
    recording = Recording.read(output)
    assert max(sample.time_s for sample in recording.host_samples) < (recording.ended or 0) - 0.5
    assert any("the job ran on" in note for note in recording.notes)


def test_a_full_disk_costs_the_rest_of_the_recording_and_not_the_job(tmp_path: Path) -> None:
    output = tmp_path / "run.jsonl"
    job = "import time; time.sleep(2); print('end'); raise SystemExit(6)"
    limited = ["bash", "-c", 'ulimit -f 1; exec "$@"', "bash", *PROBE, "-o", output, "--", *_python(job)]
    kept = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}  # the limit would cut compiled modules short
    found = subprocess.run(limited, capture_output=True, timeout=60, env=kept)
    assert (found.returncode, found.stdout) == (6, b"end\n")
    assert b"the recording is incomplete" in found.stderr
    assert Recording.read(output).host_samples


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "nothing to watch"),
        (["--pid", "1", "--replay", "x"], "exclude each other"),
        (["--pid", "999999999"], "no such process"),
        (["--replay", "no-such-file"], "No such file"),
        (["--interval", "1ms", "--", "true"], "--interval must be"),
        (["--interval", "soon", "--", "true"], "'soon' is not a time"),
        (["--source", "prometheus", "--", "true"], "needs --prometheus"),
        (["-o", "/no/such/folder/x", "--", "true"], "No such file"),
        (["--since", "3h"], "needs --prometheus"),
    ],
)
def test_misuse_is_one_line(options: list[str], message: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", *options]) == 2
    error = capfd.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_the_monitor_does_not_import_torch() -> None:
    code = (
        "import sys; from gpulint.cli import main; main(['probe', '--source', 'none', '--', 'true']);"
        " print(sorted({'torch', 'numpy', 'matplotlib'} & set(sys.modules)))"
    )
    found = subprocess.run(_python(code), capture_output=True, text=True, timeout=60)
    assert found.stdout == "[]\n"


def test_output_that_would_block_is_waited_for() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    command = [*PROBE, "--", *_python("import os; os.write(1, b'x' * 300_000)")]
    with subprocess.Popen(command, stdout=writer) as process:
        os.close(writer)
        read = 0
        while piece := os.read(reader, 4096):
            read += len(piece)
    os.close(reader)
    assert (read, process.returncode) == (300_000, 0)


def test_a_host_that_cannot_be_watched_costs_samples_and_not_the_job(tmp_path: Path) -> None:
    output = tmp_path / "run.jsonl"
    broken = (
        "import gpulint_probe.watch as w\n"
        "def fail(pid): raise ValueError('no /proc here')\n"
        "w.HostSampler = fail\n"
        "from gpulint.cli import main\n"
        f"main(['probe', '--source', 'none', '-o', {str(output)!r}, '--', 'sh', '-c', 'echo end; exit 9'])"
    )
    code = broken.replace("main([", "raise SystemExit(main([") + ")"
    found = subprocess.run(_python(code), capture_output=True, timeout=60)
    assert (found.returncode, found.stdout) == (9, b"end\n")
    assert Recording.read(output).notes == ["sampling failed: ValueError: no /proc here"]
