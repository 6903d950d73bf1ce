"""The GitHub Action: its steps run as a runner would run them, and the documentation lists its inputs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent.parent
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS: dict[str, dict[str, Any]] = {step.get("name", step.get("id")): step for step in ACTION["runs"]["steps"]}
WASTE = "import torch\ntorch.autograd.set_detect_anomaly(True)\n"
Scan = Callable[..., tuple[int, str, dict[str, str]]]


def run(step: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a step's script as GitHub does: bash with errors and failing pipes fatal, inputs as variables."""
    env = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR")} | environment
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", STEPS[step]["run"]]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=600)


@pytest.fixture
def scan(tmp_path: Path) -> Scan:
    """``scan(select=...)`` -> (exit code, standard output, outputs of the step), with gpulint in the place of a venv."""
    temp, project = tmp_path / "temp", tmp_path / "project"
    tools = temp / "gpulint" / "bin"
    tools.mkdir(parents=True)
    (tools / "gpulint").write_text(f'#!/bin/sh\nexec {sys.executable} -m gpulint "$@"\n')
    (tools / "gpulint").chmod(0o755)
    (project / "a folder").mkdir(parents=True)
    (project / "train.py").write_text(WASTE)
    (project / "a folder" / "other.py").write_text(WASTE)

    def call(**inputs: str) -> tuple[int, str, dict[str, str]]:
        given = {name: inputs.get(name, ACTION["inputs"][name]["default"]) for name in ("paths", "select", "args")}
        env = {name.upper(): value for name, value in given.items()}
        env |= {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "RUNNER_TEMP": str(temp)}
        env |= {"GITHUB_WORKSPACE": str(project), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"), "BASELINE": ""}
        outputs = tmp_path / "outputs"
        outputs.write_text("")
        if base := inputs.get("base"):
            done = run("Record the findings of the base", project, GITHUB_OUTPUT=str(outputs), BASE=base, **env)
            if done.returncode != 0:
                return done.returncode, done.stdout, {}
            env["BASELINE"] = _outputs(outputs)["baseline"]
        done = run("Scan", project, GITHUB_OUTPUT=str(outputs), **env)
        return done.returncode, done.stdout, _outputs(outputs)

    return call


def _outputs(path: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in path.read_text().splitlines())


def _commit(project: Path) -> str:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(project)]
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "change"], check=True)
    return subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()


def test_a_scan_annotates_fails_and_leaves_sarif(scan: Scan) -> None:
    code, out, outputs = scan()
    assert code == 1
    assert re.findall(r"^::warning file=([^,]+),", out, re.MULTILINE) == ["a folder/other.py", "train.py"]
    results = json.loads(Path(outputs["sarif-file"]).read_text())["runs"][0]["results"]
    assert {result["ruleId"] for result in results} == {"GPU414"}


def test_inputs_become_arguments(scan: Scan) -> None:
    assert scan(select="GPU301,GPU302")[0] == 0
    assert scan(args="--exit-zero  --severity warning\n")[0] == 0
    code, out, _ = scan(paths="a folder\n\n")
    assert (code, out.count("::warning")) == (1, 1)
    assert scan(paths="a folder\ntrain.py\n")[1].count("::warning") == 2


def test_a_pull_request_is_compared_with_its_base(scan: Scan, tmp_path: Path) -> None:
    project = tmp_path / "project"
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    base = _commit(project)
    (project / "train.py").write_text("import torch\n")
    (project / "new.py").write_text(WASTE)
    _commit(project)
    code, out, _ = scan(base=base)
    assert code == 1
    assert re.findall(r"^::warning file=([^,]+),", out, re.MULTILINE) == ["new.py"]
    assert "1 new finding, 1 fixed" in (tmp_path / "summary.md").read_text()
    status = ["git", "-C", str(project), "status", "--porcelain"]
    assert subprocess.run(status, check=True, capture_output=True, text=True).stdout == ""
    code, out, _ = scan(base="0" * 40)
    assert (code, "fetch-depth: 0" in out) == (2, True)


def test_wrong_inputs_fail_without_a_file(scan: Scan) -> None:
    code, _, outputs = scan(select="GPU999; touch injected")
    assert (code, outputs) == (2, {})


def test_it_installs_itself_or_the_version_that_is_asked_for(tmp_path: Path) -> None:
    """With a stand-in for Python that notes what it is called with."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\nmkdir -p "$3/bin" && cp "$0" "$3/bin/python"\n')
    python.chmod(0o755)
    for version in ("", "0.1.0"):
        values = {"PYTHON": str(python), "SOURCE": "/the action", "VERSION": version, "RUNNER_TEMP": str(tmp_path)}
        assert run("Install gpulint", tmp_path, **values).returncode == 0
    calls = (tmp_path / "calls").read_text().splitlines()
    venv = f"-m venv {tmp_path}/gpulint"
    assert calls == [venv, "-m pip install --quiet /the action", venv, "-m pip install --quiet gpulint==0.1.0"]


def test_scripts_take_inputs_from_the_environment_only_and_please_shellcheck() -> None:
    shellcheck = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    scripts = [step["run"] for step in STEPS.values() if "run" in step]
    assert len(scripts) == 4
    assert not any("${{" in script for script in scripts)
    if shellcheck is None:
        pytest.skip("shellcheck is not installed")
    for text in [*scripts, (ROOT / "scripts" / "check").read_text(), (ROOT / ".ci" / "run").read_text()]:
        done = subprocess.run([shellcheck, "--shell=bash", "-"], input=text, capture_output=True, text=True)
        assert done.stdout == ""


def test_the_documentation_lists_every_input_and_its_examples_use_no_other() -> None:
    text = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \| .* \|", text, re.MULTILINE)
    assert rows == list(ACTION["inputs"])
    blocks = re.findall(r"^```yaml.*?\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    given = [step["with"] for block in blocks for step in _steps(yaml.safe_load(block)) if "gpulint" in step["uses"]]
    assert given
    assert set().union(*given) <= set(ACTION["inputs"])


def _steps(document: Any) -> list[dict[str, Any]]:
    if isinstance(document, list):
        return document
    return [step for job in document.get("jobs", {}).values() for step in job["steps"]]
