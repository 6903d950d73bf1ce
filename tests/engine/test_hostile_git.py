"""No command lets git run a program that a repository's configuration names, and results stay what they are."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpulint.git import Repository

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

Git = Callable[..., str]


@pytest.fixture
def git(tree: Path, monkeypatch: pytest.MonkeyPatch) -> Git:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)

    def call(*arguments: str, check: bool = True) -> str:
        identity = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
        done = subprocess.run(["git", *identity, *arguments], check=check, capture_output=True, text=True)
        return done.stdout.strip()

    call("init", "-q")
    return call


@pytest.fixture
def repository(tree: Path, git: Git) -> Path:
    (tree / "a.py").write_text("one = WASTE\ntwo = 2\n")
    (tree / "b.sh").write_text("echo WASTE\n")
    (tree / ".gitattributes").write_text("*.py filter=evil diff=evil ident\n*.sh filter=proc\n")
    git("add", "-A")
    git("commit", "-q", "-m", "x")
    (tree / "a.py").write_text("one = WASTE\ntwo = WASTE\n")
    git("commit", "-q", "-a", "-m", "y")
    (tree / "b.sh").write_text("echo WASTE\necho WASTE\n")
    return tree


COMMANDS = [
    ("scan", "--diff", "HEAD~1", "--no-cache"),
    ("scan", "--no-cache"),
    ("baseline", "create"),
    ("baseline", "update"),
    ("fix",),
    ("fix", "--apply"),
    ("fix", "--apply", "--allow-dirty"),
    ("scan", "--add-ignores", "--no-cache"),
    ("scan", "--add-ignores", "--no-cache", "--allow-dirty"),
]


@pytest.fixture
def marker(tree: Path, tmp_path: Path) -> Path:
    """A program that leaves a file named ``ran`` beside it."""
    program = tmp_path / "tools" / "evil"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho \"$0 $*\" >> '{tmp_path}/tools/ran'\ncat\n")
    program.chmod(0o755)
    return program


def configure(git: Git, tree: Path, program: Path) -> None:
    """Name ``program`` wherever git might run it."""
    for key in (
        "filter.evil.clean", "filter.evil.smudge", "filter.proc.process", "diff.evil.textconv", "diff.evil.command",
        "diff.external", "core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "core.gitProxy", "core.askPass",
        "credential.helper", "gpg.program", "gpg.ssh.program", "sequence.editor", "interactive.diffFilter",
        "core.alternateRefsCommand", "remote.origin.uploadpack", "uploadpack.packObjectsHook", "pager.ls-files",
        "pager.rev-parse", "pager.cat-file", "merge.evil.driver", "trailer.x.command", "browser.x.cmd", "diff.guitool",
    ):  # fmt: skip
        git("config", key, str(program))
    for command in ("rev-parse", "ls-files", "cat-file", "diff-index", "ls-tree", "merge-base", "check-attr", "config"):
        git("config", f"alias.{command}", f"!{program}")
    git("config", "filter.evil.required", "true")
    git("config", "log.showSignature", "true")
    hooks = tree / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-index-change", "fsmonitor-watchman", "pre-auto-gc", "reference-transaction", "post-checkout"):
        shutil.copy(program, hooks / name)


def test_no_program_of_the_configuration_runs(run: Any, repository: Path, git: Git, marker: Path) -> None:
    configure(git, repository, marker)
    (marker.parent / "ran").unlink(missing_ok=True)
    for command in COMMANDS:
        for file in ("a.py", "b.sh"):  # the index knows no times of theirs, so that contents are compared
            os.utime(repository / file)
        code, _, err = run(*command)
        assert code in (0, 1, 2), err
        assert not (marker.parent / "ran").exists(), command
    os.utime(repository / "a.py")
    git("status", check=False)
    assert (marker.parent / "ran").exists()  # git itself does run them


@pytest.mark.parametrize("how", ["ext", "ssh", "local", "vcs"])
def test_missing_objects_are_not_fetched(run: Any, repository: Path, git: Git, marker: Path, how: str) -> None:
    blob = git("rev-parse", "HEAD~1:a.py")
    (repository / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    urls = {"ext": f"ext::{marker} %S", "ssh": "ssh://host/x", "local": str(marker.parent), "vcs": "x"}
    git("config", "remote.origin.url", urls[how])
    git("config", "remote.origin.promisor", "true")
    git("config", "remote.origin.uploadpack", str(marker))
    git("config", "core.repositoryFormatVersion", "1")
    git("config", "extensions.partialClone", "origin")
    git("config", "protocol.allow", "always")
    git("config", "protocol.ext.allow", "always")
    git("config", "core.sshCommand", str(marker))
    if how == "vcs":
        git("config", "remote.origin.vcs", "ext")
    code, _, err = run("scan", "--diff", "HEAD~1", "--no-cache")
    assert code == 2
    assert "a partial clone lacks the old content" in err
    assert not (marker.parent / "ran").exists()


def test_a_program_named_git_in_the_tree_is_not_run(
    run: Any, repository: Path, marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(marker, repository / "git")
    monkeypatch.setenv("PATH", f".{os.pathsep}{os.pathsep}{os.environ['PATH']}")
    assert run("scan", "--diff", "HEAD~1", "--no-cache", "--exit-zero")[0] == 0
    assert not (marker.parent / "ran").exists()


def test_another_work_tree_is_refused(run: Any, repository: Path, git: Git, tmp_path: Path) -> None:
    git("config", "core.worktree", str(tmp_path))
    code, _, err = run("scan", "--diff", "HEAD~1", "--no-cache")
    assert code == 2
    assert "for the work tree of" in err


def test_an_embedded_bare_repository_is_none(run: Any, tree: Path, git: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "a.py").write_text("WASTE\n")
    git("add", "a.py")
    git("commit", "-q", "-m", "x")
    git("init", "-q", "--bare", "inner")
    (tree / "inner" / "b.py").write_text("WASTE\n")
    monkeypatch.chdir(tree / "inner")
    code, out, _ = run("scan", "--diff", "HEAD", "--no-cache", "--output-format", "concise")
    assert (code, out.splitlines()[0][:8]) == (1, "b.py:1:1")


# -- what stays as it is ----------------------------------------------------------------------------------------------


def lines(run: Any, *options: str) -> list[str]:
    _, out, err = run("scan", "--no-cache", "--output-format", "concise", "-q", "--diff", *options)
    return [line.partition(": ")[0] for line in out.splitlines()] or err.splitlines()


def clean(tree: Path, *names: str) -> bool:
    return not Repository(tree).unsaved([tree.resolve() / name for name in names])


@pytest.fixture
def plain(tree: Path, git: Git) -> Path:
    (tree / "a.py").write_text("one = WASTE\ntwo = 2\n")
    (tree / "sub").mkdir()
    (tree / "sub" / "b.py").write_text("WASTE\n")
    git("add", "-A")
    git("commit", "-q", "-m", "x")
    return tree


@pytest.mark.parametrize("how", ["autocrlf", "attribute"])
def test_converted_line_ends_are_no_change(run: Any, plain: Path, git: Git, how: str) -> None:
    if how == "autocrlf":
        git("config", "core.autocrlf", "true")
    else:
        (plain / ".gitattributes").write_text("*.py text eol=crlf\n")
    (plain / "a.py").write_bytes(b"one = WASTE\r\ntwo = 2\r\n")
    assert lines(run, "HEAD") == []
    assert clean(plain, "a.py")
    (plain / "a.py").write_bytes(b"one = WASTE\r\ntwo = WASTE\r\n")
    assert lines(run, "HEAD") == ["a.py:2:7"]
    assert not clean(plain, "a.py")


def test_line_ends_that_git_would_not_write_are_unsaved(plain: Path) -> None:
    (plain / "a.py").write_bytes(b"one = WASTE\r\ntwo = 2\r\n")
    assert not clean(plain, "a.py")


def test_a_filtered_file_is_saved_while_the_index_knows_its_times(run: Any, plain: Path, git: Git) -> None:
    """As with Git LFS and nbstripout: what git holds is not what the file holds."""
    git("config", "filter.strip.clean", "sed /secret/d")
    (plain / ".gitattributes").write_text("c.py filter=strip\n")
    (plain / "c.py").write_text("x = 1  # secret\ny = WASTE\n")
    os.utime(plain / "c.py", (1, 1))
    git("add", "-A")
    git("commit", "-q", "-m", "z")
    assert git("show", "HEAD:c.py") == "y = WASTE"
    assert clean(plain, "c.py")
    assert lines(run, "HEAD") == []
    (plain / "c.py").write_text("x = 2  # secret\ny = WASTE\n")
    assert not clean(plain, "c.py")
    assert lines(run, "HEAD") == []  # the line with the finding is the one that git holds


def test_times_are_not_believed_in_the_moment_of_the_commit(plain: Path, git: Git) -> None:
    """A file that changes in the tick in which the index is written has the same times and size afterwards."""
    index = plain / ".git" / "index"
    before = (plain / "a.py").stat()
    (plain / "a.py").write_text("one = WASTE\ntwo = 3\n")
    os.utime(plain / "a.py", ns=(before.st_atime_ns, before.st_mtime_ns))
    os.utime(index, ns=(before.st_mtime_ns, before.st_mtime_ns))
    assert not clean(plain, "a.py")


def test_a_commit_that_is_being_made(run: Any, plain: Path, git: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    """``git commit a.py`` gives its hooks an index of their own, and where the repository is."""
    (plain / "a.py").write_text("one = 1\ntwo = WASTE\n")
    shutil.copy(plain / ".git" / "index", plain / ".git" / "next-index-1.lock")
    monkeypatch.setenv("GIT_INDEX_FILE", ".git/next-index-1.lock")
    git("add", "a.py")
    monkeypatch.setenv("GIT_DIR", ".git")
    monkeypatch.chdir(plain / "sub")
    assert clean(plain, "a.py")
    assert lines(run, "HEAD", "..") == ["../a.py:2:7"]
    monkeypatch.delenv("GIT_INDEX_FILE")
    assert not clean(plain, "a.py")


def test_variables_of_another_repository(
    run: Any, plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path / "other")], check=True)
    (plain / "a.py").write_text("one = WASTE\ntwo = WASTE\n")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path / "other"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "other" / ".git" / "index"))
    assert lines(run, "HEAD") == ["a.py:2:7"]


def test_worktrees_and_sparse_checkouts(
    run: Any, plain: Path, git: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git("worktree", "add", "-q", str(tmp_path / "second"))
    monkeypatch.chdir(tmp_path / "second")
    assert lines(run, "HEAD") == []
    git("sparse-checkout", "set", "--no-cone", "/a.py")
    assert not (tmp_path / "second" / "sub").exists()
    assert lines(run, "HEAD") == []
    (tmp_path / "second" / "a.py").write_text("one = WASTE\ntwo = WASTE\n")
    assert lines(run, "HEAD") == ["a.py:2:7"]


def test_a_folder_that_a_link_replaced_is_not_read_through(run: Any, plain: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (plain / "sub").rename(outside)
    (plain / "sub").symlink_to(outside)
    assert not clean(plain, "sub/b.py")
    changes = {change.old: change.new for change in Repository(plain).changes("HEAD", lambda path: True)}
    assert changes == {"sub/b.py": None}


def test_conflicts(run: Any, plain: Path, git: Git) -> None:
    git("checkout", "-q", "-b", "other")
    (plain / "a.py").write_text("one = WASTE\ntwo = 3\n")
    git("commit", "-qam", "y")
    git("checkout", "-q", "main")
    (plain / "a.py").write_text("one = WASTE\ntwo = 4\n")
    git("commit", "-qam", "z")
    git("merge", "other", check=False)
    (plain / "a.py").write_text("one = WASTE\ntwo = WASTE\n")
    assert lines(run, "HEAD") == ["a.py:2:7"]
    assert not clean(plain, "a.py")
