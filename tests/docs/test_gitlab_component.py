"""The GitLab component: its job runs as a runner would run it, on a merge request of a real repository."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent.parent
WASTE = "import torch\ntorch.autograd.set_detect_anomaly(True)\n"


def _job(**given: str) -> dict[str, Any]:
    """The job with its inputs filled in."""
    header, text = (ROOT / "templates" / "gpulint.yml").read_text(encoding="utf-8").split("\n---\n")
    inputs = yaml.safe_load(header)["spec"]["inputs"]
    for name, spec in inputs.items():
        value = given.get(name, spec["default"])
        text = text.replace(f"$[[ inputs.{name} ]]", str(value).lower() if isinstance(value, bool) else value)
    assert "$[[" not in text
    job: dict[str, Any] = yaml.safe_load(text)["gpulint"]
    return job


@pytest.fixture
def merge_request(tmp_path: Path) -> tuple[Path, str]:
    """A clone whose last commit repairs one file and adds another, and the commit before."""
    project = tmp_path / "project"
    project.mkdir()
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(project)]
    subprocess.run([*git, "init", "-q"], check=True)
    for files in ({"train.py": WASTE}, {"train.py": "import torch\n", "new.py": WASTE}):
        for name, text in files.items():
            (project / name).write_text(text)
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-qm", "change"], check=True)
    asked = subprocess.run([*git, "rev-parse", "HEAD~"], check=True, capture_output=True, text=True)
    return project, asked.stdout.strip()


def test_a_merge_request_is_compared_with_its_base(merge_request: tuple[Path, str], tmp_path: Path) -> None:
    project, base = merge_request
    job = _job()
    python = tmp_path / "gpulint" / "bin" / "gpulint"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -m gpulint "$@"\n')
    python.chmod(0o755)
    script = [line for line in job["script"] if "pip install" not in line and "-m venv" not in line]
    env = os.environ | job["variables"] | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    env |= {"CI_BUILDS_DIR": str(tmp_path), "CI_MERGE_REQUEST_DIFF_BASE_SHA": base}
    command = ["bash", "-eo", "pipefail", "-c", "\n".join(script)]
    done = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1, done.stderr
    assert "1 new finding, 1 fixed" in (project / "gpulint.md").read_text()
    listed = json.loads((project / job["artifacts"]["reports"]["codequality"]).read_text())
    assert [item["location"]["path"] for item in listed] == ["new.py"]
