"""``--apply`` changes no file whose present content git could not bring back."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def git(tree: Path) -> Callable[..., None]:
    def call(*arguments: str) -> None:
        identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        subprocess.run(["git", *identity, *arguments], cwd=tree, check=True, capture_output=True)

    call("init", "-q")
    return call


def test_committed_files_are_changed(fix: Any, tree: Path, git: Any) -> None:
    (tree / "a.py").write_text("WASTE\n")
    (tree / "other.py").write_text("x = 1\n")
    git("add", ".")
    git("commit", "-qm", "start")
    (tree / "other.py").write_text("x = 2\n")  # nothing is fixed there
    (tree / "new.py").write_text("x = 2\n")
    assert fix("--apply")[0] == 0
    assert (tree / "a.py").read_text() == "FIXED\n"


@pytest.mark.parametrize("how", ["modified", "untracked", "ignored"])
def test_others_are_refused_all_together(fix: Any, tree: Path, git: Any, how: str) -> None:
    (tree / "clean.py").write_text("WASTE\n")
    (tree / "sub dir").mkdir()
    file = tree / "sub dir" / "é [x].py"
    if how == "modified":
        file.write_text("x = 1\n")
    if how == "ignored":
        (tree / ".gitignore").write_text("*[x].py\n")
    git("add", ".")
    git("commit", "-qm", "start")
    file.write_text("WASTE\n")
    named = (str(file), "clean.py") if how == "ignored" else ()
    code, out, err = fix("--apply", *named)
    assert (code, out) == (2, "")
    assert "--allow-dirty" in err
    assert err.splitlines()[1:] == ["  sub dir/é [x].py"]
    assert file.read_text() == (tree / "clean.py").read_text() == "WASTE\n"
    assert fix("--apply", "--allow-dirty", *named)[0] == 0
    assert file.read_text() == (tree / "clean.py").read_text() == "FIXED\n"


def test_a_diff_is_shown_whatever_git_holds(fix: Any, tree: Path, git: Any) -> None:
    (tree / "a.py").write_text("WASTE\n")
    assert fix()[0] == 0
    assert fix("--diff")[0] == 1


def test_staged_content_is_held_by_git(fix: Any, tree: Path, git: Any) -> None:
    (tree / "a.py").write_text("WASTE\n")
    git("add", "a.py")
    assert fix("--apply")[0] == 0


def test_the_index_is_left_alone_and_no_monitor_is_started(fix: Any, tree: Path, git: Any) -> None:
    (tree / "a.py").write_text("WASTE\n")
    git("add", "a.py")
    git("commit", "-qm", "start")
    git("config", "core.fsmonitor", f"touch '{tree}/started'; false")
    os.utime(tree / "a.py")
    index = (tree / ".git" / "index").read_bytes()
    assert fix("--apply")[0] == 0
    assert (tree / ".git" / "index").read_bytes() == index
    assert not (tree / "started").exists()


def test_a_broken_repository_is_not_taken_for_a_clean_one(fix: Any, tree: Path) -> None:
    (tree / ".git").mkdir()
    (tree / "a.py").write_text("WASTE\n")
    code, _, err = fix("--apply")
    assert code == 2
    assert "not a git repository" in err
    assert (tree / "a.py").read_text() == "WASTE\n"
    assert fix("--apply", "--allow-dirty")[0] == 0
