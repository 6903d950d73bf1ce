"""The baseline: what it hides, what it survives, and what it says when it no longer fits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

NAME = "gpulint-baseline.json"
TWICE = "def train(x):\n    x = WASTE\n    y = WASTE\n"


@pytest.fixture
def project(tree: Path) -> Path:
    """A project with a baseline's worth of findings."""
    (tree / "gpulint.toml").touch()
    (tree / "pkg").mkdir()
    (tree / "pkg" / "a.py").write_text(TWICE)
    (tree / "b.sh").write_text("echo WASTE\n")
    return tree


SELECT = ("--select", "TST101,TST102,TST201")


def baseline(run: Any, action: str, *options: str) -> tuple[int, str, str]:
    done: tuple[int, str, str] = run("baseline", action, *options, *SELECT)
    return done


def found(run: Any, *options: str) -> list[str]:
    lines = run("scan", "--output-format", "concise", "-q", *options)[1].splitlines()
    return [line.partition(": ")[0] for line in lines]


def test_a_scan_reports_only_what_is_new(run: Any, project: Path) -> None:
    assert baseline(run, "create") == (0, f"{NAME}: 3 findings\n", "")
    assert run("scan") == (0, "No findings.\n", f"3 findings hidden by {NAME}\n")
    (project / "b.sh").write_text("echo WASTE\necho WASTE\necho two WASTE\n")
    assert found(run) == ["b.sh:2:6", "b.sh:3:10"]
    assert len(found(run, "--no-baseline")) == 5


def test_the_file_is_sorted_with_an_entry_a_line_and_for_readers(run: Any, project: Path) -> None:
    (project / "b.sh").write_text("echo WASTE\necho WASTE\n")
    baseline(run, "create")
    text = (project / NAME).read_text()
    assert [line.strip()[:24] for line in text.splitlines()[3:6]] == [
        '{"path": "b.sh", "code":',
        '{"path": "pkg/a.py", "co',
        '{"path": "pkg/a.py", "co',
    ]
    content = json.loads(text)
    assert content["version"] == 1
    first = content["findings"][0]
    assert (first["code"], first["message"], first["severity"]) == ("TST101", "the word WASTE", "warning")
    assert first["count"] == 2
    assert "line" not in first


@pytest.mark.parametrize(
    "text",
    [
        "# new\n\n\n" + TWICE,
        TWICE.replace("    ", "\t\t"),
        "if True:\n" + "".join(f"  {line}\n" for line in TWICE.splitlines()),
        TWICE.replace(" = ", "="),
        TWICE.replace("WASTE\n", "WASTE  # noqa: F841\n"),
        TWICE.replace("\n", "\r\n"),
        "def train(x):\n    y = WASTE\n    x = WASTE\n",
    ],
    ids=["shifted", "tabs", "deeper", "blanks", "comment", "crlf", "order"],
)
def test_survives(run: Any, project: Path, text: str) -> None:
    baseline(run, "create")
    (project / "pkg" / "a.py").write_bytes(text.encode())
    assert run("scan", "-q") == (0, "", "")


def test_survives_a_renamed_folder_but_covers_no_copy(run: Any, project: Path) -> None:
    baseline(run, "create")
    (project / "pkg").rename(project / "lib")
    assert found(run) == []
    (project / "pkg").mkdir()
    (project / "pkg" / "a.py").write_text(TWICE)
    assert found(run) == ["lib/a.py:2:9", "lib/a.py:3:9"]


def test_another_function_or_line_is_new(run: Any, project: Path) -> None:
    baseline(run, "create")
    (project / "pkg" / "a.py").write_text(TWICE + "def other(x):\n    x = WASTE\n")
    assert found(run) == ["pkg/a.py:5:9"]


def test_notebooks(run: Any, project: Path, notebook: Any) -> None:
    (project / "n.ipynb").write_text(notebook("WASTE"))
    baseline(run, "create")
    (project / "n.ipynb").write_text(notebook("x = 1", "x\nWASTE"))
    assert found(run) == []


def test_stale_entries_are_named(run: Any, project: Path) -> None:
    baseline(run, "create")
    (project / "b.sh").unlink()
    (project / "pkg" / "a.py").write_text("def train(x):\n    x = WASTE\n")
    _, _, err = run("scan")
    assert f"{NAME}: 2 entries are no longer found; 'gpulint baseline update' removes them:\n" in err
    assert "  b.sh: TST101 the word WASTE\n  pkg/a.py: TST101 the word WASTE\n" in err


def test_what_a_scan_did_not_look_at_is_not_stale(run: Any, project: Path) -> None:
    (project / "b.sh").write_text("echo WASTE HINT\n")
    baseline(run, "create")
    (project / "b.sh").write_text("echo\n")
    assert "no longer" not in run("scan", "pkg")[2]
    assert "b.sh: TST102" not in run("scan", "--select", "TST101")[2]
    assert "b.sh: TST102" not in run("scan", "--severity", "warning")[2]
    (project / "pkg" / "a.py").write_text("def f(:\n")
    assert "pkg/a.py: TST101" not in run("scan")[2]


def test_update_drops_and_adds_and_keeps_the_rest(run: Any, project: Path) -> None:
    baseline(run, "create")
    before = (project / NAME).read_text().splitlines()
    (project / "b.sh").write_text("echo\n")
    (project / "c.sh").write_text("echo WASTE\n")
    (project / "pkg" / "a.py").write_text("\n" + TWICE)
    code, out, _ = baseline(run, "update")
    assert (code, out) == (0, f"{NAME}: 3 findings (1 added, 1 removed)\n")
    after = (project / NAME).read_text().splitlines()
    assert set(before) - set(after) == {before[3]}
    assert found(run) == []
    text = (project / NAME).read_bytes()
    baseline(run, "update")
    assert (project / NAME).read_bytes() == text


def test_update_of_a_folder_leaves_other_entries_alone(run: Any, project: Path) -> None:
    baseline(run, "create")
    (project / "b.sh").unlink()
    (project / "pkg" / "a.py").unlink()
    assert baseline(run, "update", "pkg")[1] == f"{NAME}: 1 finding (0 added, 2 removed)\n"


def test_update_follows_a_renamed_folder(run: Any, project: Path) -> None:
    baseline(run, "create")
    (project / "pkg").rename(project / "lib")
    baseline(run, "update")
    paths = [item["path"] for item in json.loads((project / NAME).read_text())["findings"]]
    assert paths == ["b.sh", "lib/a.py", "lib/a.py"]


def test_create_does_not_overwrite(run: Any, project: Path) -> None:
    (project / NAME).write_text("mine")
    code, _, err = baseline(run, "create")
    assert code == 2
    assert f"{NAME} already exists" in err
    assert (project / NAME).read_text() == "mine"
    assert baseline(run, "create", "--force")[0] == 0
    assert found(run) == []


def test_another_place(run: Any, project: Path) -> None:
    (project / "ci").mkdir()
    baseline(run, "create", "--baseline", "ci/known.json")
    assert not (project / NAME).exists()
    assert len(found(run)) == 3
    assert found(run, "--baseline", "ci/known.json") == []
    assert [path.name for path in (project / "ci").iterdir()] == ["known.json"]


def test_a_baseline_is_found_from_a_folder_below(run: Any, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    baseline(run, "create")
    monkeypatch.chdir(project / "pkg")
    assert found(run) == []
    assert found(run, "a.py") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"version": 1,\n"findings": [}', f"{NAME}:2: broken baseline: "),
        ('{"version": 99, "findings": []}', "version 99, written by a newer gpulint"),
        ("[]", "no gpulint baseline"),
        ('{"version": "1", "findings": []}', "no gpulint baseline"),
        ('{"version": 1}', "no gpulint baseline"),
        ('{"version": 1, "findings": [\n7]}', "entry 1 must be an object"),
        ('{"version": 1, "findings": [\n{"path": "a.py"}]}', f"{NAME}:2: entry 1 needs 'code'"),
        (
            '{"version": 1, "findings": [{"path": "", "code": "", "message": "", "severity": "no", "fingerprint": ""}]}',
            "unknown severity 'no'",
        ),
        (
            '{"version": 1, "findings": [{"path": "", "code": "", "message": "", "severity": "info", "fingerprint": "",'
            ' "count": 0}]}',
            "'count'",
        ),
        ("\xff", "broken baseline"),
    ],
)
def test_a_broken_baseline_is_misuse(run: Any, project: Path, text: str, expected: str) -> None:
    (project / NAME).write_bytes(text.encode("latin-1"))
    for command in ("scan", "baseline"):
        code, out, err = run("scan") if command == "scan" else baseline(run, "update")
        assert (code, out) == (2, "")
        assert expected in err


def test_a_missing_baseline_is_misuse(run: Any, project: Path) -> None:
    code, _, err = run("scan", "--baseline", "no.json")
    assert code == 2
    assert "no.json: no such baseline" in err
    code, _, err = baseline(run, "update")
    assert code == 2
    assert "gpulint baseline create" in err
    code, _, err = baseline(run, "create", "--baseline", "no/folder.json")
    assert code == 2
    assert "the baseline could not be written" in err
    assert baseline(run, "create", "-", "--stdin-filename", "a.py")[0] == 2


def test_files_that_cannot_be_read_are_not_hidden(run: Any, project: Path) -> None:
    (project / "broken.py").write_text("def f(:\n")
    assert baseline(run, "create")[0] == 1
    assert run("scan")[0] == 1


def test_what_the_baseline_holds_is_not_fixed(run: Any, project: Path) -> None:
    baseline(run, "create", "pkg")
    assert run("fix", "--apply", "--allow-no-vcs", "--allow-dirty", *SELECT)[0] == 0
    assert (project / "pkg" / "a.py").read_text() == TWICE
    assert (project / "b.sh").read_text() == "echo FIXED\n"
    run("fix", "--apply", "--allow-no-vcs", "--allow-dirty", "--no-baseline", *SELECT)
    assert "WASTE" not in (project / "pkg" / "a.py").read_text()
