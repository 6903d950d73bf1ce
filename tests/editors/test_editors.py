"""Real editors: a diagnostic appears, its quick fix is applied, the diagnostic goes, the file is saved."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROGRAM = """\
import torch
from torch.utils.data import DataLoader
print("😀漢"); loader = DataLoader(torch.zeros(9), num_workers=2, persistent_workers=True)
for batch in loader:
    batch = batch.cuda()
"""
LOADER = "DataLoader(torch.zeros(9), num_workers=2, persistent_workers=True)"
PINNED = "persistent_workers=True, pin_memory=True)"
"""The fix of its line, which another statement keeps in one."""
SECONDS = 300
"""Each step has its own limit in the drivers, which say what was missed."""


def has_eglot() -> bool:
    """Eglot comes with Emacs 29; before, it is a package."""
    if shutil.which("emacs") is None:
        return False
    command = ["emacs", "--batch", "--eval", "(progn (package-initialize) (require 'eglot))"]
    return subprocess.run(command, capture_output=True).returncode == 0


def drive(tmp_path: Path, *command: str) -> tuple[dict[str, object], str]:
    """What the editor told, and what is in the file afterwards."""
    path, log = tmp_path / "train.py", tmp_path / "log.json"
    path.write_text(PROGRAM)
    repository = HERE.parents[1]
    packages = [str(repository / folder) for folder in ("", "rules", "fixers", "runtime_probe")]
    environment = {
        **os.environ,
        "HOME": str(tmp_path / "home"),
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": os.pathsep.join(packages),
        "GPULINT_COMMAND": json.dumps([sys.executable, "-m", "gpulint", "lsp"]),
        "GPULINT_FILE": str(path),
        "GPULINT_LOG": str(log),
    }
    (tmp_path / "home").mkdir()
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=SECONDS)
    assert log.exists(), done.stdout + done.stderr
    told = json.loads(log.read_text())
    assert done.returncode == 0, f"{told}\n{done.stdout}{done.stderr}"
    return told, path.read_text()


def check(told: dict[str, object], saved: str) -> None:
    assert told["before"] == ["GPU301", "GPU302"]
    assert told["shown"] == LOADER
    assert told["title"] == "GPU301: pin the loader's batches in host memory, and copy them without blocking the host"
    assert told["after"] == []
    assert told["done"] is True
    assert saved == PROGRAM.replace("persistent_workers=True)", PINNED).replace(".cuda()", ".cuda(non_blocking=True)")


@pytest.mark.skipif(shutil.which("nvim") is None, reason="Neovim is not installed (Debian package neovim)")
def test_neovim(tmp_path):
    check(*drive(tmp_path, "nvim", "--headless", "--clean", "-n", "-c", f"luafile {HERE / 'drive.lua'}"))


@pytest.mark.skipif(not has_eglot(), reason="Emacs with eglot is not installed (Debian packages emacs-nox, elpa-eglot)")
def test_emacs_with_eglot(tmp_path):
    check(*drive(tmp_path, "emacs", "--batch", "-l", str(HERE / "drive.el")))
