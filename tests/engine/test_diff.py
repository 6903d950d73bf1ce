"""``gpulint scan --diff``: what changes brought, on their own lines or elsewhere, and nothing else."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpulint.documents import Document
from gpulint.finding import Finding, Severity
from gpulint.hooks import hookimpl
from gpulint.project import Project
from gpulint.rule import Category, Dimension, Kind, Rule
from gpulint.source import Span


def git(*arguments: str) -> str:
    options = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
    return subprocess.run(["git", *options, *arguments], check=True, capture_output=True, text=True).stdout.strip()


def commit(message: str = "change") -> str:
    git("add", "-A")
    git("commit", "-q", "--allow-empty", "-m", message)
    return git("rev-parse", "HEAD")


@pytest.fixture
def repository(tree: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit; it has findings in every file."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    git("init", "-q")
    (tree / "a.py").write_text("one = WASTE\ntwo = 2\nthree = WASTE\n")
    (tree / "b.sh").write_text("echo WASTE\n")
    commit()
    return tree


def found(run: Any, *options: str) -> list[str]:
    code, out, err = run("scan", "--output-format", "concise", "-q", *options)
    assert code in (0, 1), err
    return [line.partition(": ")[0] for line in out.splitlines()]


def test_nothing_changed(run: Any, repository: Path) -> None:
    assert run("scan", "--diff", "HEAD") == (
        0,
        "No findings.\n",
        "3 existing findings hidden (not introduced by these changes)\n",
    )


def test_changed_lines_committed_staged_and_not(run: Any, repository: Path) -> None:
    (repository / "a.py").write_text("zero = WASTE\none = WASTE\ntwo = WASTE\nthree = WASTE\n")
    assert found(run, "--diff", "HEAD") == ["a.py:1:8", "a.py:3:7"]
    git("add", "-A")
    assert found(run, "--diff", "HEAD") == ["a.py:1:8", "a.py:3:7"]
    commit()
    assert found(run, "--diff", "HEAD") == []
    assert found(run, "--diff", "HEAD~1") == ["a.py:1:8", "a.py:3:7"]


def test_untracked_files_are_new(run: Any, repository: Path) -> None:
    (repository / "new.py").write_text("WASTE\n")
    assert found(run, "--diff", "HEAD") == ["new.py:1:1"]
    git("add", "-N", "new.py")
    assert found(run, "--diff", "HEAD") == ["new.py:1:1"]


def test_renames_are_followed(run: Any, repository: Path) -> None:
    (repository / "pkg").mkdir()
    git("mv", "a.py", "pkg/ä b.py")
    path = repository / "pkg" / "ä b.py"
    path.write_text(path.read_text() + "four = WASTE\n")
    assert found(run, "--diff", "HEAD") == ["pkg/ä b.py:4:8"]


def test_deleted_and_binary_files(run: Any, repository: Path) -> None:
    (repository / "b.sh").unlink()
    (repository / "a.py").write_bytes(b"\0\1WASTE")
    assert found(run, "--diff", "HEAD") == []
    commit()
    (repository / "a.py").write_text("WASTE\n")
    assert found(run, "--diff", "HEAD") == ["a.py:1:1"]


def test_line_endings_are_no_change(run: Any, repository: Path) -> None:
    (repository / "a.py").write_bytes(b"one = WASTE\r\ntwo = 2\r\nthree = WASTE\r\nfour = WASTE\r\n")
    assert found(run, "--diff", "HEAD") == ["a.py:4:8"]


def test_notebook_cells(run: Any, repository: Path, notebook: Any) -> None:
    (repository / "n.ipynb").write_text(notebook("a = WASTE", "b = WASTE"))
    commit()
    (repository / "n.ipynb").write_text(notebook("new = 1", "a = WASTE", "c = 1\nb = WASTE\nd = WASTE"))
    assert found(run, "--diff", "HEAD") == ["n.ipynb:cell 2:3:5"]


def test_what_came_to_the_other_branch_later_is_no_change(run: Any, repository: Path) -> None:
    git("checkout", "-q", "-b", "topic")
    (repository / "t.py").write_text("WASTE\n")
    commit()
    git("checkout", "-q", "main")
    (repository / "a.py").write_text("one = 1\n")
    commit()
    git("checkout", "-q", "topic")
    assert found(run, "--diff", "main") == ["t.py:1:1"]


def test_from_a_folder_below_and_by_name(run: Any, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repository / "sub").mkdir()
    (repository / "sub" / "c.py").write_text("WASTE\n")
    commit()
    (repository / "sub" / "c.py").write_text("WASTE\nx = WASTE\n")
    (repository / "a.py").write_text("WASTE\n")
    monkeypatch.chdir(repository / "sub")
    assert found(run, "--diff", "HEAD") == ["c.py:2:5"]
    assert found(run, "--diff", "HEAD", "c.py") == ["c.py:2:5"]
    assert found(run, "--diff", "HEAD", "../a.py") == ["../a.py:1:1"]


def test_through_a_link_to_the_repository(
    run: Any, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(repository)
    (repository / "b.sh").write_text("echo WASTE\necho WASTE\n")
    monkeypatch.chdir(tmp_path)
    assert found(run, "--diff", "HEAD", "link") == ["link/b.sh:2:6"]


def test_a_place_that_a_finding_names_counts(run: Any, repository: Path) -> None:
    (repository / "train.py").write_text("x = 1\n")
    (repository / "job.sh").write_text("echo\n")
    commit()
    (repository / "job.sh").write_text("echo\npython train.py\n")
    assert found(run, "--diff", "HEAD", "--select", "TST401") == ["train.py:1:1"]


def test_broken_files_only_count_if_they_changed(run: Any, repository: Path) -> None:
    (repository / "broken.py").write_text("def f(:\n")
    assert run("scan", "--diff", "HEAD")[0] == 1
    commit()
    code, _, err = run("scan", "--diff", "HEAD")
    assert code == 0
    assert "broken.py" not in err


class CallersPlugin:
    """A rule about ``WASTE`` lines that speaks only if some other file says ``LOUD``; it names no place there."""

    @staticmethod
    def check(document: Document, project: Project) -> Iterator[Finding]:
        words = [word for path in project.files if path != document.path for word in project.data(path).split()]
        lines = document.source.text.splitlines()
        for number, line in enumerate(lines, 1):
            if "WASTE" in line and b"LOUD" in words:
                yield RULE.finding(document.path, Span(number, 1, number, len(line) + 1), "loud")

    @hookimpl
    def gpulint_rules(self) -> list[Rule]:
        return [RULE]


RULE = Rule(
    code="LOUD101",
    name="loud",
    category=Category.API_MISUSE,
    dimension=Dimension.LIBRARY,
    severity=Severity.WARNING,
    kinds=frozenset({Kind.PYTHON}),
    summary="Loud",
    why="Noise.",
    evidence=(),
    check=CallersPlugin.check,
)


@pytest.fixture
def loud(run: Any, install: Any) -> Any:
    install("loud", CallersPlugin)

    def call(*options: str) -> list[str]:
        return found(run, "--diff", "HEAD", "--select", "LOUD101", *options)

    return call


def test_a_finding_caused_elsewhere(loud: Any, repository: Path) -> None:
    (repository / "b.sh").write_text("echo LOUD\n")
    assert loud() == ["a.py:1:1", "a.py:3:1"]
    commit()
    assert loud() == []
    (repository / "b.sh").write_text("# more\necho LOUD\n")
    assert loud() == []


@pytest.mark.parametrize("how", ["untracked", "renamed", "back"])
def test_caused_by_files_that_come_and_go(loud: Any, repository: Path, how: str) -> None:
    (repository / "c.sh").write_text("echo LOUD\n")
    if how == "untracked":
        assert loud() == ["a.py:1:1", "a.py:3:1"]
        return
    commit()
    git("mv", "c.sh", "d.sh")
    if how == "back":
        (repository / "d.sh").write_text("echo quiet\n")
        assert loud() == []
        commit()
        (repository / "d.sh").write_text("echo LOUD\n")
        assert loud() == ["a.py:1:1", "a.py:3:1"]
        return
    assert loud() == []


def test_what_was_excluded_did_not_count_before(loud: Any, repository: Path) -> None:
    for folder in ("vendor", "old"):
        (repository / folder).mkdir()
        (repository / folder / "c.sh").write_text("echo LOUD\n")
    (repository / "gpulint.toml").write_text('extend-exclude = ["old/"]\n')
    commit()
    for folder in ("vendor", "old"):
        (repository / folder / "c.sh").unlink()
    (repository / "b.sh").write_text("echo LOUD\n")
    assert loud() == ["a.py:1:1", "a.py:3:1"]


def test_a_suppression_that_goes_brings_its_finding(run: Any, repository: Path) -> None:
    (repository / "a.py").write_text("# gpulint: ignore\nWASTE\n")
    commit()
    (repository / "a.py").write_text("WASTE\n")
    assert found(run, "--diff", "HEAD") == ["a.py:1:1"]


def test_imports_are_looked_up_in_the_tree_as_it_was(run: Any, repository: Path) -> None:
    (repository / "train.py").write_text(
        "import torch\nfrom torch.utils.data import DataLoader\nfrom settings import WORKERS\n\n"
        "loader = DataLoader(data, num_workers=WORKERS)\n"
        "model.cuda()\nfor batch in loader:\n    model(batch.cuda()).backward()\n"
    )
    (repository / "settings.py").write_text("WORKERS = 8\n")
    commit()
    options = ("--diff", "HEAD", "--select", "GPU303")
    assert found(run, *options) == []
    (repository / "settings.py").write_text("WORKERS = 0\n")
    assert found(run, *options) == ["train.py:5:10"]
    commit()
    git("mv", "settings.py", "config.py")
    (repository / "train.py").write_text((repository / "train.py").read_text().replace("settings", "config"))
    assert found(run, *options) == []


def test_submodules(run: Any, repository: Path, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    git("-C", str(inner), "init", "-q")
    (inner / "s.py").write_text("WASTE\n")
    git("-C", str(inner), "add", "-A")
    git("-C", str(inner), "commit", "-q", "-m", "x")
    git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "sub")
    assert found(run, "--diff", "HEAD") == ["sub/s.py:1:1"]
    commit()
    assert found(run, "--diff", "HEAD") == []


def test_baseline_and_diff_together(run: Any, repository: Path) -> None:
    (repository / "a.py").write_text("one = WASTE\ntwo = WASTE\nthree = WASTE\n")
    run("baseline", "create", "a.py", "--select", "TST101")
    (repository / "b.sh").write_text("echo 1 WASTE\n")
    assert found(run, "--diff", "HEAD") == ["b.sh:1:8"]


def test_the_work_tree_and_the_index_are_left_alone(run: Any, repository: Path) -> None:
    (repository / "a.py").write_text("WASTE\n")
    (repository / "c.py").write_text("WASTE\n")
    index, status = (repository / ".git" / "index").read_bytes(), git("status", "--porcelain")
    found(run, "--diff", "HEAD")
    assert (repository / ".git" / "index").read_bytes() == index
    assert git("status", "--porcelain") == status


def test_no_repository(run: Any, tree: Path) -> None:
    (tree / "a.py").write_text("WASTE\n")
    code, out, err = run("scan", "--diff", "HEAD")
    assert (code, out) == (2, "")
    assert "not a git repository" in err


@pytest.mark.parametrize("revision", ["no-such", "--output=x", "HEAD~7", ""])
def test_an_unknown_revision(run: Any, repository: Path, revision: str) -> None:
    code, out, err = run("scan", f"--diff={revision}")
    assert (code, out) == (2, "")
    assert f"--diff {revision}: no such revision" in err


def test_a_repository_without_commits(run: Any, tree: Path) -> None:
    git("init", "-q")
    assert run("scan", "--diff", "HEAD")[0] == 2


def test_unrelated_histories(run: Any, repository: Path) -> None:
    git("checkout", "-q", "--orphan", "other")
    commit("a root of its own")
    code, _, err = run("scan", "--diff", "main")
    assert code == 2
    assert "no commit in common" in err


def test_a_shallow_clone_says_what_to_do(
    run: Any, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = git("rev-parse", "HEAD")
    (repository / "a.py").write_text("WASTE\n")
    commit()
    git("clone", "-q", "--depth", "1", f"file://{repository}", str(tmp_path / "clone"))
    monkeypatch.chdir(tmp_path / "clone")
    code, _, err = run("scan", "--diff", first)
    assert code == 2
    assert "shallow clone" in err
    assert found(run, "--diff", "HEAD") == []


def test_git_is_missing(run: Any, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    code, _, err = run("scan", "--diff", "HEAD")
    assert code == 2
    assert "git cannot be run" in err
