"""``gpulint scan --watch``: a change is seen, mistakes on the way are survived, and Ctrl-C ends it."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from gpulint.cli import main

WASTE = "import torch\ntorch.autograd.set_detect_anomaly(True)\n"
PATIENCE_S = 120


class Watched:
    """A running ``scan --watch``; ``until`` reads on to a line."""

    def __init__(self, folder: Path) -> None:
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "NO_COLOR": "1"}
        command = [sys.executable, "-m", "gpulint", "scan", "--watch", "--output-format", "concise"]
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # Where the tests run in the background, shells have them ignore Ctrl-C, and children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self.lines: queue.Queue[str] = queue.Queue()
        assert self.process.stdout is not None
        threading.Thread(target=self.read, args=(self.process.stdout,), daemon=True).start()

    def read(self, stream: IO[str]) -> None:
        for line in stream:
            self.lines.put(line)

    def until(self, text: str) -> list[str]:
        """The lines up to the first that holds ``text``."""
        seen: list[str] = []
        while not seen or text not in seen[-1]:
            seen.append(self.lines.get(timeout=PATIENCE_S))
        return seen


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    (tmp_path / ".git").mkdir()
    (tmp_path / "train.py").write_text("import torch\n")
    found = Watched(tmp_path)
    yield found
    found.process.kill()
    found.process.wait()


def test_changes_are_seen_until_ctrl_c(watched: Watched, tmp_path: Path) -> None:
    assert not any("GPU" in line for line in watched.until("Watching 1 file."))
    (tmp_path / "train.py").write_text(WASTE)
    assert "train.py:2:1: GPU414" in watched.until("Watching 1 file.")[0]
    (tmp_path / "empty" / "still").mkdir(parents=True)
    (tmp_path / "notes.txt").write_text("no file that is scanned\n")
    (tmp_path / "empty" / "still" / "new.py").write_text(WASTE)
    assert "empty/still/new.py:2:1: GPU414" in watched.until("Watching 2 files")[0]
    (tmp_path / "gpulint.toml").write_text("ignore = [\n")
    assert "gpulint.toml: not valid TOML" in "".join(watched.until("Watching 3 files"))
    (tmp_path / "gpulint.toml").write_text('ignore = ["GPU414"]\n')
    assert not any("GPU414" in line for line in watched.until("Watching 3 files"))
    (tmp_path / "train.py").unlink()
    watched.until("Watching 2 files")
    watched.process.send_signal(signal.SIGINT)
    assert watched.process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--stdin-filename", "x.py"), "--watch cannot scan standard input"),
        (("nowhere",), "nowhere: no such file or folder"),
        (("--select", "GPU999"), "unknown rule or category 'GPU999'"),
    ],
)
def test_wrong_arguments_end_it_at_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("import torch\n")
    assert main(("scan", "--watch", *arguments)) == 2
    assert message in capsys.readouterr().err
