"""The hooks under the real pre-commit in scratch repositories: a commit is blocked, repaired, and passes.

pre-commit installs gpulint from a clone of this tree, for which pip needs the package index; without it these tests
are skipped.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pre_commit")
ROOT = Path(__file__).parent.parent.parent
SOURCES = (
    ".pre-commit-hooks.yaml",
    "LICENSE",
    "README.md",
    "fixers",
    "gpulint",
    "pyproject.toml",
    "rules",
    "runtime_probe",
)
NO_NETWORK = re.compile(r"No matching distribution|NewConnectionError|Temporary failure in name|Connection refused")

LAUNCHER = "#!/bin/bash\n#SBATCH --gres=gpu:4\npython train.py\n"
TRAIN = """\
import torch

torch.autograd.set_detect_anomaly(True)
model = Net()
model = model.cuda()
for images, labels in train_loader:
    loss = criterion(model(images.cuda(non_blocking=True)), labels.cuda(non_blocking=True))
    loss.backward()
    optimizer.step()
"""
Git = Callable[..., subprocess.CompletedProcess[str]]


def run(folder: Path, home: Path, *command: str) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if not key.startswith(("GIT_", "PYTHON"))}
    env |= {"PRE_COMMIT_HOME": str(home / "cache"), "HOME": str(home), "NO_COLOR": "1", "PRE_COMMIT_COLOR": "never"}
    env |= {"PATH": os.pathsep.join([str(Path(sys.executable).parent), env["PATH"]]), "GIT_CONFIG_NOSYSTEM": "1"}
    env |= {f"GIT_{who}_{what}": "someone@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=600)


def git(folder: Path, home: Path, *arguments: str) -> str:
    done = run(folder, home, "git", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def published(home: Path) -> Path:
    """A git repository with this tree in it, as users name it in their settings."""
    folder = home / "gpulint"
    folder.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder / name)
    git(folder, home, "init", "-q")
    git(folder, home, "add", "-A")
    git(folder, home, "commit", "-q", "-m", "all")
    return folder


@pytest.fixture
def project(tmp_path: Path, home: Path) -> Path:
    """A repository of a user, with a launcher that is committed already."""
    git(tmp_path, home, "init", "-q")
    (tmp_path / "launch").write_text(LAUNCHER)
    git(tmp_path, home, "add", "-A")
    git(tmp_path, home, "commit", "-q", "-m", "launcher")
    return tmp_path


@pytest.fixture
def with_hooks(project: Path, published: Path, home: Path) -> Callable[..., Path]:
    """``with_hooks(id, ...)``: the project with these hooks installed."""

    def call(*ids: str) -> Path:
        rev = git(published, home, "rev-parse", "HEAD")
        hooks = "".join(f"    - id: {name}\n" for name in ids)
        text = f"repos:\n- repo: {published.as_uri()}\n  rev: {rev}\n  hooks:\n{hooks}"
        (project / ".pre-commit-config.yaml").write_text(text)
        git(project, home, "add", ".pre-commit-config.yaml")
        git(project, home, "commit", "-q", "-m", "hooks")
        done = run(project, home, "pre-commit", "install", "--install-hooks")
        if done.returncode and NO_NETWORK.search(done.stdout + done.stderr):
            pytest.skip("pip reaches no package index to install the hook from")
        assert done.returncode == 0, done.stdout + done.stderr
        return project

    return call


def test_a_commit_is_blocked_repaired_and_passes(with_hooks: Callable[..., Path], home: Path) -> None:
    project = with_hooks("gpulint-fix", "gpulint")
    (project / "train.py").write_text(TRAIN)
    git(project, home, "add", "train.py")
    first = run(project, home, "git", "commit", "-m", "train")
    said = first.stdout + first.stderr
    assert first.returncode == 1
    assert "files were modified by this hook" in said
    assert (project / "train.py").read_text() == TRAIN.replace("torch.autograd.set_detect_anomaly(True)\n", "")
    # The launcher is not part of the commit, but the program is judged with it.
    assert "GPU413 missing-data-parallel (error, high impact): 4 GPUs are held" in said

    (project / "launch").write_text(LAUNCHER.replace("gpu:4", "gpu:1"))
    git(project, home, "add", "-A")
    second = run(project, home, "git", "commit", "-m", "train")
    assert second.returncode == 0, second.stdout + second.stderr
    assert git(project, home, "status", "--porcelain") == ""


def test_changes_that_are_not_staged_stay_as_they_are(with_hooks: Callable[..., Path], home: Path) -> None:
    project = with_hooks("gpulint-fix")
    wasteful = TRAIN + "\n\n" + "# a comment\n" * 10
    (project / "train.py").write_text(wasteful)
    git(project, home, "add", "train.py")
    (project / "train.py").write_text(wasteful + "print('not staged')\n")
    (project / "launch").write_text(LAUNCHER + "# not staged\n")
    assert run(project, home, "git", "commit", "-m", "train").returncode == 1
    now = (project / "train.py").read_text()
    assert "set_detect_anomaly" not in now
    assert now.endswith("print('not staged')\n")
    assert (project / "launch").read_text() == LAUNCHER + "# not staged\n"


def test_try_repo_finds_batch_scripts_without_a_suffix_and_leaves_out_what_is_excluded(
    project: Path, published: Path, home: Path
) -> None:
    (project / "launch").write_text(LAUNCHER.replace("python", "export CUDA_LAUNCH_BLOCKING=1\npython"))
    (project / "old.py").write_text(TRAIN)
    (project / "gpulint.toml").write_text('extend-exclude = ["old.py"]\n')
    (project / "README.md").write_text("torch.autograd.set_detect_anomaly(True)\n")
    git(project, home, "add", "-A")
    done = run(project, home, "pre-commit", "try-repo", str(published), "gpulint", "--all-files")
    said = done.stdout + done.stderr
    if done.returncode and NO_NETWORK.search(said):
        pytest.skip("pip reaches no package index to install the hook from")
    assert done.returncode == 1
    assert set(re.findall(r"--> (\S+?):", said)) == {"launch"}
    assert "GPU414" in said
