"""The tutorial's commands give what it shows, one after the other."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
BLOCK = re.compile(r"^```console\n(\$ .*?)^```$", re.MULTILINE | re.DOTALL)


def commands() -> list[tuple[str, list[str]]]:
    """(command, lines that it prints) of the blocks with a prompt; ``...`` stands for anything."""
    text = "".join(BLOCK.findall((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")))
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    return [(part.splitlines()[0], part.splitlines()[1:]) for part in parts]


def shown(expected: list[str], printed: str) -> bool:
    pattern = "".join(re.escape(line + "\n").replace(re.escape("..."), "[^\n]*") for line in expected)
    pattern = re.sub(r"^\[\^\n\]\*\\\n", "(?:.*\n)*?", pattern, flags=re.MULTILINE)
    return re.fullmatch(pattern, printed) is not None


def test_commands_give_what_the_tutorial_shows(tmp_path: Path) -> None:
    job, tools = tmp_path / "job", tmp_path / "bin"
    shutil.copytree(ROOT / "examples" / "debugging-left-on" / "wasteful", job)
    tools.mkdir()
    (tools / "gpulint").write_text(f'#!/bin/sh\nexec {sys.executable} -m gpulint "$@"\n')
    (tools / "gpulint").chmod(0o755)
    env = {key: value for key, value in os.environ.items() if key not in ("FORCE_COLOR", "COLUMNS")}
    env |= {"PATH": f"{tools}{os.pathsep}{env['PATH']}", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run(["git", "init", "-q"], cwd=job, check=True)
    steps = commands()
    assert len(steps) >= 8
    for command, expected in steps:
        done = subprocess.run(["bash", "-c", command], cwd=job, env=env, capture_output=True, text=True, timeout=120)
        assert shown(expected, done.stdout), f"$ {command}\n{done.stdout}{done.stderr}"
