"""Which files are read, and what is said of the others."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpulint.patterns import NamePatterns, compiled, readable


def files(run: Any, *arguments: str) -> list[str]:
    _, out, _ = run("scan", "--output-format", "concise", *arguments)
    return [line.split(":")[0] for line in out.splitlines() if ": TST" in line]


def put(root: Path, *names: str, text: str = "WASTE\n") -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_kinds_by_name_and_by_first_line(run: Any, tree: Path) -> None:
    put(tree, "a.py", "b.sh", "c.sbatch", "d.slurm", "e.yaml", "f.yml", "Dockerfile", "g.txt", "h.cpp", "i")
    put(tree, "launch", text="#!/usr/bin/env bash\nWASTE\n")
    put(tree, "tool", text="#!/usr/bin/python3\nWASTE\n")
    put(tree, "submit", text="#SBATCH -N 1\nWASTE\n")
    assert files(run) == [
        "Dockerfile", "a.py", "b.sh", "c.sbatch", "d.slurm", "e.yaml", "f.yml", "launch", "submit", "tool",
    ]  # fmt: skip


def test_gitignore_with_nesting_and_negation(run: Any, tree: Path) -> None:
    (tree / ".git").mkdir()
    put(tree, "a.py", "out/b.py", "gen_c.py", "sub/gen_d.py", "sub/gen_keep.py", "sub/deep/e.py", "sub/deep/f.py")
    (tree / ".gitignore").write_text("out/\ngen_*.py\n/sub/deep/e.py\n")
    (tree / "sub" / ".gitignore").write_text("!gen_keep.py\n")
    assert files(run) == ["a.py", "sub/deep/f.py", "sub/gen_keep.py"]
    # The repository's ignores hold below, wherever the scan starts; what is named is scanned all the same.
    assert files(run, "sub") == ["sub/deep/f.py", "sub/gen_keep.py"]
    assert files(run, "gen_c.py") == ["gen_c.py"]
    assert files(run, "out") == ["out/b.py"]


def test_files_that_git_tracks_are_read_though_gitignore_names_them(run: Any, tree: Path) -> None:
    put(tree, "runs/job.sh", "runs/new.sh", "notes.sh", "build/made.sh", "job.sh")
    (tree / ".gitignore").write_text("runs/\nnotes.sh\nbuild/\n")
    subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
    subprocess.run(["git", "add", "-f", "runs/job.sh", "build/made.sh"], cwd=tree, check=True)
    assert files(run) == ["job.sh", "runs/job.sh"]


def test_third_party_folders_are_skipped_with_a_note(run: Any, tree: Path) -> None:
    put(
        tree,
        "a.py",
        "third_party/b.py",
        "venv/c.py",
        "env/d.py",
        "node_modules/e.py",
        "__pycache__/f.py",
        "__MACOSX/._a.py",
    )
    (tree / "env" / "pyvenv.cfg").touch()
    _, out, err = run("scan", "--show-notes", "--output-format", "concise")
    assert out.startswith("a.py")
    assert out.count("TST101") == 1
    assert {line.split(":")[0] for line in err.splitlines()} == {"third_party", "venv", "env", "node_modules"}
    assert files(run, "third_party") == ["third_party/b.py"]
    assert "4 notes hidden; --show-notes shows them" in run("scan")[2]


def test_exclude_settings(run: Any, tree: Path) -> None:
    put(tree, "a.py", "old/b.py", "build/c.py", "sub/old_d.py")
    (tree / "gpulint.toml").write_text('extend-exclude = ["old", "old_*.py"]\n')
    assert files(run) == ["a.py"]
    assert files(run, "old/b.py") == ["old/b.py"]
    (tree / "gpulint.toml").write_text('exclude = ["old"]\n')
    assert files(run) == ["a.py", "build/c.py", "sub/old_d.py"]


def test_huge_files_and_lines_are_skipped_with_a_note(run: Any, tree: Path) -> None:
    put(tree, "line.py", text="x = '" + "a" * 1_100_000 + "' # WASTE\n")
    put(tree, "long.py", text="# WASTE\n" * 700_000)
    put(tree, "fine.py")
    code, out, err = run("scan", "--show-notes", "--output-format", "concise")
    assert (code, out.count("TST101")) == (1, 1)
    assert err.splitlines() == [
        "line.py: note: skipped: a line longer than 1 MB",
        "long.py: note: skipped: larger than 5 MB",
    ]


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="needs symbolic links")
def test_symbolic_links(run: Any, tree: Path, tmp_path: Path) -> None:
    put(tree, "real/a.py", "z.py")
    put(tmp_path / "outside", "b.py")
    (tree / "real" / "loop").symlink_to(tree)
    (tree / "alias").symlink_to(tree / "real")
    (tree / "alias.py").symlink_to(tree / "z.py")
    (tree / "dangling.py").symlink_to(tree / "nowhere.py")
    (tree / "away").symlink_to(tmp_path / "outside")
    (tree / "pyproject.toml").touch()
    assert files(run) == ["real/a.py", "z.py"]
    assert "away: note: not followed: a link out of the project" in run("scan", "--show-notes")[2]


def test_files_that_cannot_be_read_are_reported(run: Any, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tree, "secret.py", "fine.py")
    access = os.access
    # Permissions do not bind root, who may well run these tests.
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "secret.py" and access(path, mode))
    code, out, err = run("scan", "--output-format", "concise")
    assert (code, out.count("TST101")) == (1, 1)
    assert out.startswith("fine.py:1:1: TST101")
    assert err == "secret.py: error: cannot be read: Permission denied\n"


def test_explicit_file_of_no_known_kind(run: Any, tree: Path) -> None:
    put(tree, "data.csv")
    code, _, err = run("scan", "data.csv")
    assert code == 0
    assert "data.csv: warning: skipped: gpulint does not read this kind of file" in err


def test_force_exclude_leaves_out_what_is_named(run: Any, tree: Path) -> None:
    put(tree, "a.py", "old/b.py", "sub/venv/c.py", "gen.py", "ignored.py")
    (tree / "gpulint.toml").write_text('extend-exclude = ["old", "gen.py"]\n')
    (tree / ".gitignore").write_text("ignored.py\n")
    named = ["a.py", "old/b.py", "sub/venv/c.py", "gen.py", "ignored.py", "old"]
    assert files(run, *named) == ["a.py", "gen.py", "ignored.py", "old/b.py", "sub/venv/c.py"]
    assert files(run, "--force-exclude", *named) == ["a.py", "ignored.py"]
    code, out, err = run("scan", "--force-exclude", "--show-notes", "old/b.py")
    assert (code, out) == (0, "")
    assert "old/b.py: note: skipped: excluded" in err


_NAMES = ("build", "a", "b.py", ".env", "x.egg-info", "c++", "d$e", "f~", "=g", "-h", "A", ".py", "*", "é", "a b")
_PATTERNS = (
    *(f"{star}{name}{slash}" for name in _NAMES for star in ("", "*") for slash in ("", "/")),
    "/a", "a/b.py", "**/build", "*.p[xy]", " a", "a ", "\\#a", "!a", "!build/", "!*.py",
)  # fmt: skip
_PATHS = st.builds(
    lambda parts, slash: "/".join(parts) + slash, st.lists(st.sampled_from(_NAMES), min_size=1), st.sampled_from("/ ")
).map(str.rstrip)


@given(st.lists(st.sampled_from(_PATTERNS), min_size=1, max_size=5), _PATHS)
def test_names_in_a_gitignore_mean_what_they_mean_to_git(lines: list[str], path: str) -> None:
    patterns, _ = readable(lines)
    if path.endswith("/") and any(line.startswith("!") for line in lines):
        return  # folders that are not ignored after all: see below
    assert NamePatterns(patterns).include(path) == compiled(patterns).check_file(path).include


@pytest.mark.parametrize(
    "lines",
    [
        ["*", "!*/", "!*.py", "/old"],
        ["/*", "!/src/", "!/a.py", "!.gitignore"],
        ["*", "!a.py", "!src/", "!src/**/", "!src/**/*.py"],
        ["src/*", "!src/deep/", "old/"],
    ],
)
def test_folders_are_not_ignored_after_all_where_git_says_so(run: Any, tree: Path, lines: list[str]) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
    put(tree, "a.py", "src/b.py", "src/deep/c.py", "old/d.py")
    (tree / ".gitignore").write_text("\n".join(lines))
    command = ["git", "ls-files", "--others", "--exclude-standard", "*.py"]
    listed = subprocess.run(command, cwd=tree, check=True, capture_output=True, text=True).stdout.split()
    assert files(run) == sorted(listed)
    assert "src/deep/c.py" in listed
