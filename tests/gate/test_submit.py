"""``gpulint submit -- COMMAND`` judges what the command submits and then runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = '#!/bin/sh\necho "submitted: $@"\nexit 7\n'


def _submit(work: Path, *words: str, policy: bool = True) -> subprocess.CompletedProcess[str]:
    tools = work.parent / "tools"
    tools.mkdir(exist_ok=True)
    for name in ("sbatch", "kubectl"):
        (tools / name).write_text(PROGRAM)
        (tools / name).chmod(0o755)
    given = ["--policy", str(work.parent / "policy.toml")] if policy else []
    return subprocess.run(
        [sys.executable, "-m", "gpulint", "submit", *given, *words],
        cwd=work,
        capture_output=True,
        text=True,
        env=os.environ | {"PATH": f"{tools}:{os.environ['PATH']}"},
    )


@pytest.mark.parametrize(
    "words",
    [
        ["wasteful.sh"],
        ["--gres=gpu:4", "wasteful.sh", "argument"],
        ["-N", "1", "--time", "1:00:00", "wasteful.sh"],
        ["-N1", "--hold", "--exclusive", "wasteful.sh"],
        ["--gpus=2", "--wrap", "python -m trainer; sleep infinity"],
        ["--gpus=2", "--wrap=python -m trainer; sleep infinity"],
    ],
)
def test_what_is_refused_is_not_submitted(work: Path, words: list[str]) -> None:
    done = _submit(work, "--", "sbatch", *words)
    assert (done.returncode, done.stdout, "refused" in done.stderr) == (1, "", True), done.stderr


def test_what_is_clean_is_submitted_with_the_commands_own_exit_code(work: Path) -> None:
    done = _submit(work, "--", "sbatch", "--gres=gpu:1", "clean.sh", "--lr", "1")
    assert (done.returncode, done.stdout, done.stderr) == (7, "submitted: --gres=gpu:1 clean.sh --lr 1\n", "")


def test_without_a_policy_it_warns(work: Path) -> None:
    done = _submit(work, "--", "sbatch", "wasteful.sh", policy=False)
    assert (done.returncode, done.stdout) == (7, "submitted: wasteful.sh\n")
    assert "gpulint: warning for this job for 4 GPUs" in done.stderr


def test_a_reason_overrides(work: Path) -> None:
    done = _submit(work, "--", "sbatch", "--comment=gpulint:allow=GPU105:waits for a debugger", "wasteful.sh")
    assert (done.returncode, "submitted" in done.stdout) == (7, True)


def test_a_manifest_of_another_command_is_judged(work: Path) -> None:
    (work / "pod.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - image: x\n"
        "    command: [bash, -c, 'python -m trainer; sleep infinity']\n    resources: {limits: {nvidia.com/gpu: 2}}\n"
    )
    assert _submit(work, "--", "kubectl", "apply", "-f", "pod.yaml").returncode == 1
    assert _submit(work, "--", "kubectl", "apply", "--filename=pod.yaml").returncode == 1
    assert _submit(work, "--", "kubectl", "get", "pods").returncode == 7


@pytest.mark.parametrize("words", [[], ["--"], ["--", "no-such-command"]])
def test_a_missing_command_is_named(work: Path, words: list[str]) -> None:
    done = _submit(work, *words)
    assert done.returncode == 2
    assert "gpulint" in done.stderr and "Traceback" not in done.stderr
