"""The completion scripts do their work in the real shells."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpulint.cli import main
from gpulint.cli.parser import COMMANDS
from gpulint.reporters import FORMATS


def need(shell: str) -> str:
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"{shell} is not installed")
    return path


@pytest.fixture
def script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[str], Path]:
    """``script(shell)``: the completion script for a shell, in a file that zsh finds by its name."""

    def call(shell: str) -> Path:
        assert main(("completion", shell)) == 0
        path = tmp_path / "_gpulint"
        path.write_text(capsys.readouterr().out)
        return path

    return call


def test_bash(script: Callable[[str], Path], tmp_path: Path) -> None:
    bash, functions = need("bash"), script("bash")
    (tmp_path / "train.py").touch()

    def complete(*words: str) -> set[str]:
        code = f"""
            source {functions}
            COMP_WORDS=(gpulint {" ".join(f"'{word}'" for word in words)}); COMP_CWORD={len(words)}
            COMP_LINE="${{COMP_WORDS[*]}}"; COMP_POINT=${{#COMP_LINE}}
            _shtab_gpulint gpulint "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD-1]}}"
            printf '%s\\n' "${{COMPREPLY[@]}}"
        """
        done = subprocess.run([bash, "--norc", "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.stderr == ""
        return {word.strip() for word in done.stdout.split("\n") if word.strip()}

    assert complete("") >= set(COMMANDS)
    assert complete("explain", "GPU30") >= {"GPU301", "GPU302"}
    assert complete("explain", "dataloader-not") == {"dataloader-not-pinned"}
    assert complete("scan", "--output-format", "") == set(FORMATS)
    assert "train.py" in complete("scan", "tr")


def test_fish(script: Callable[[str], Path], tmp_path: Path) -> None:
    fish, functions = need("fish"), script("fish")

    def complete(line: str) -> set[str]:
        home = {**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
        command = [fish, "--no-config", "-c", f"source {functions}; complete -C '{line}'"]
        done = subprocess.run(command, cwd=tmp_path, env=home, capture_output=True, text=True, timeout=60)
        assert done.stderr == ""
        return {entry.split("\t")[0] for entry in done.stdout.splitlines()}

    assert complete("gpulint ") >= set(COMMANDS)
    assert complete("gpulint explain GPU30") >= {"GPU301", "GPU302"}
    assert complete("gpulint scan --output-format ") >= set(FORMATS)
    assert "--severity" in complete("gpulint scan --sev")


def test_zsh(script: Callable[[str], Path], tmp_path: Path) -> None:
    zsh = need("zsh")
    script("zsh")
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(tmp_path)
        os.execve(zsh, [zsh, "-f", "-i"], {**os.environ, "TERM": "dumb", "HOME": str(tmp_path)})

    def typed(text: str, expected: str) -> bool:
        """Type ``text``; whether ``expected`` shows up."""
        os.write(terminal, text.encode())
        seen, end = "", time.monotonic() + 30
        while time.monotonic() < end and expected not in seen:
            if select.select([terminal], [], [], 1)[0]:
                seen += os.read(terminal, 4096).decode("utf-8", "replace")
                seen = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r|.\x08", "", seen)
        return expected in seen

    try:
        setup = f"fpath=({tmp_path} $fpath); autoload -U compinit; compinit -u -d {tmp_path}/dump; echo re''ady\n"
        assert typed(setup, "\nready")
        assert typed("gpulint expl\t", "gpulint explain ")
        assert typed("dataloader-not\t", "dataloader-not-pinned")
        assert typed("\x15gpulint scan --output-fo\tsar\t", "--output-format sarif")
    finally:
        os.kill(process, 9)
        os.waitpid(process, 0)
        os.close(terminal)


def test_an_unknown_shell_is_misuse(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("completion", "tcl")) == 2
    assert "unknown value 'tcl' (one of bash, zsh, fish)" in capsys.readouterr().err
