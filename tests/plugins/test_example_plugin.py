"""The example of a third-party package: it installs, registers, finds, repairs, and runs its own specs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "plugin"
WASTEFUL = "#!/bin/bash\n#SBATCH --gres=gpu:1\nsrun python train.py\n"

Call = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages with the example in it, installed as any user would, but for the network."""
    source, target = tmp_path_factory.mktemp("source") / "plugin", tmp_path_factory.mktemp("packages")
    shutil.copytree(EXAMPLE, source)
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(target), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture
def gpulint(installed: Path, tmp_path: Path) -> Call:
    """Run gpulint in an empty project, beside the installed plugin and whatever lies in ``extra``."""

    def call(*arguments: str, extra: Path | None = None, module: str = "gpulint") -> subprocess.CompletedProcess[str]:
        folders = [str(path) for path in (extra, installed) if path] + [path for path in sys.path if path]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders), "NO_COLOR": "1"}
        command = [sys.executable, "-m", module, *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)

    return call


def test_its_rule_finds_and_explains(gpulint: Call, tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text(WASTEFUL)
    found = gpulint("scan", "--select", "ACME", "--output-format", "concise")
    assert (found.returncode, found.stderr) == (1, "")
    assert found.stdout.startswith("job.sh:2:9: ACME101 ")
    assert "no-time-limit" in gpulint("rules").stdout
    assert "ACME's cluster" in gpulint("explain", "no-time-limit").stdout
    listed = json.loads(gpulint("rules", "--output-format", "json").stdout)
    urls = {rule["code"]: rule["url"] for rule in listed}
    assert urls["ACME101"] == "https://handbook.acme.example/gpulint/acme101-no-time-limit/"


def test_its_fixer_repairs(gpulint: Call, tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text(WASTEFUL)
    done = gpulint("fix", "--select", "ACME", "--unsafe-fixes", "--apply", "--allow-no-vcs")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "job.sh").read_text() == WASTEFUL.replace("#SBATCH", "#SBATCH --time=04:00:00\n#SBATCH")


def test_its_own_specs_pass(gpulint: Call, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE / "tests", tmp_path / "tests")
    done = gpulint("-q", "-p", "no:cacheprovider", "tests", module="pytest")
    assert done.returncode == 0, done.stdout
    assert "8 passed" in done.stdout
