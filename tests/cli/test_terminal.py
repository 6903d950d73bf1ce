"""What people see: pages rendered on a terminal, plain text in a pipe, colours and width as the environment says."""

from __future__ import annotations

import os
import pty
import re
import struct
import subprocess
import sys
import termios
from fcntl import ioctl
from pathlib import Path

import pytest

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
WASTE = """\
import torch
from torch.utils.data import DataLoader
loader = DataLoader(data, batch_size=64)
for x in loader:
    loss = model(x.cuda()).sum()
    loss.backward()
"""


def on_terminal(*arguments: str, columns: int, cwd: Path, **environment: str) -> str:
    """Standard output of gpulint on a terminal of so many columns."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    plain = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    command = [sys.executable, "-m", "gpulint", *arguments]
    env = {**plain, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TERM": "xterm-256color", **environment}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, cwd=cwd, env=env) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                chunk = os.read(ours, 65536)
            except OSError:  # Linux says so when the other side is closed
                break
            if not chunk:
                break
            shown += chunk
        assert process.stderr is not None
        error = process.stderr.read()
    os.close(ours)
    assert process.returncode in (0, 1), error
    return shown.decode().replace("\r\n", "\n")


def widest(text: str) -> int:
    return max(len(line.rstrip()) for line in ESCAPE.sub("", text).splitlines())


def test_explain_is_rendered_on_a_terminal(tmp_path: Path) -> None:
    shown = on_terminal("explain", "GPU301", columns=60, cwd=tmp_path)
    assert ESCAPE.search(shown)
    assert "## " not in shown
    assert "```" not in shown
    assert "DataLoader(dataset, batch_size=64)" in ESCAPE.sub("", shown)
    assert 40 < widest(shown) <= 60


def test_explain_without_colour_is_still_rendered(tmp_path: Path) -> None:
    shown = on_terminal("explain", "GPU301", columns=100, cwd=tmp_path, NO_COLOR="1")
    assert not re.search(r"\x1b\[(?:\d+;)*[34]\dm", shown)
    assert "## " not in shown


def test_explain_is_plain_in_a_pipe_and_on_a_dumb_terminal(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "gpulint", "explain", "GPU301"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    piped = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True).stdout
    assert piped.startswith("# GPU301 dataloader-not-pinned\n")
    assert "\x1b" not in piped
    assert on_terminal("explain", "GPU301", columns=60, cwd=tmp_path, TERM="dumb") == piped


@pytest.mark.parametrize(("columns", "environment"), [(60, {}), (100, {"NO_COLOR": "1"})])
def test_findings_keep_to_the_width_and_to_no_color(tmp_path: Path, columns: int, environment: dict[str, str]) -> None:
    (tmp_path / "train.py").write_text(WASTE)
    shown = on_terminal("scan", "--select", "GPU301", columns=columns, cwd=tmp_path, **environment)
    assert ("\x1b" in shown) != bool(environment)
    plain = ESCAPE.sub("", shown)
    prose = plain[plain.index("  why:") : plain.index("  see:")]
    assert columns - 20 < widest(prose) <= columns


def test_rules_keep_to_the_width(tmp_path: Path) -> None:
    shown = on_terminal("rules", columns=90, cwd=tmp_path)
    assert widest(shown) <= 90
    assert len(re.findall(r"^GPU\d+ ", shown, re.MULTILINE)) > 30


def test_python_dash_m_is_the_command(tmp_path: Path) -> None:
    assert on_terminal("--version", columns=80, cwd=tmp_path).startswith("gpulint ")
