"""``gpulint fix`` as a user sees it: diffs, summaries, exit codes, what is left alone."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gpulint.fix import Edit, Fix, Safety
from gpulint.source import Span


def test_without_apply_nothing_is_written(fix: Any, tree: Path) -> None:
    (tree / "a.py").write_text("x = 1\nWASTE = RISK\nHINT = 2\n")
    code, out, err = fix()
    assert (code, err) == (0, "")
    assert (tree / "a.py").read_text() == "x = 1\nWASTE = RISK\nHINT = 2\n"
    diff, summary = out.split("a.py: 1 fix (TST101)\n")
    assert diff == "--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,3 @@\n x = 1\n-WASTE = RISK\n+FIXED = RISK\n HINT = 2\n"
    assert summary.splitlines() == [
        "1 fix in 1 file can be applied with --apply.",
        "1 more with --unsafe-fixes:",
        "  a.py:2:9: TST102: take the risk, which changes results",
        "1 finding to fix by hand (TST103); see gpulint scan.",
    ]


def test_apply(fix: Any, tree: Path) -> None:
    (tree / "a.py").write_text("WASTE = RISK\nWASTE\n")
    (tree / "b.sh").write_text("echo WASTE\n")
    code, out, _ = fix("--apply")
    assert code == 0
    assert (tree / "a.py").read_text() == "FIXED = RISK\nFIXED\n"
    assert (tree / "b.sh").read_text() == "echo FIXED\n"
    assert out.splitlines()[:3] == [
        "a.py: 2 fixes (TST101 x 2)",
        "b.sh: 1 fix (TST101)",
        "Applied 3 fixes in 2 files.",
    ]
    assert fix("--apply")[:2] == (0, "No fixes applied.\n" + "\n".join(out.splitlines()[3:]) + "\n")


def test_unsafe_fixes_on_request(fix: Any, tree: Path) -> None:
    (tree / "a.py").write_text("WASTE = RISK\n")
    assert "a.py: 2 fixes (TST101, TST102)\n" in fix("--apply", "--unsafe-fixes")[1]
    assert (tree / "a.py").read_text() == "FIXED = TAKEN\n"


def test_quiet(fix: Any, tree: Path) -> None:
    (tree / "a.py").write_text("WASTE\n")
    assert fix("-q")[1].splitlines()[-1] == "+FIXED"
    assert fix("-q", "--apply") == (0, "", "")


def test_diff_alone_and_its_exit_codes(fix: Any, tree: Path) -> None:
    (tree / "a.py").write_text("WASTE\nHINT\n")
    code, out, err = fix("--diff")
    assert (code, out, err) == (1, "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n-WASTE\n+FIXED\n HINT\n", "")
    fix("--apply")
    assert fix("--diff") == (0, "", "")


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_diffs_can_be_applied_by_git(fix: Any, tree: Path) -> None:
    files = {
        "no newline.py": b"WASTE",
        "crlf.py": b"x = 1\r\nWASTE\r\nif x:\r\n\tWASTE\n",
        "sub/latin.py": b"# coding: latin-1\nWASTE = '\xe9'\n",
        "cr.py": b"x = 1\rWASTE\ry = 2",
        'odd"\té.py': b"WASTE\n",
    }
    (tree / "sub").mkdir()
    for name, data in files.items():
        (tree / name).write_bytes(data)
    diff = fix("--diff")[1].encode("latin-1")
    copy = tree.parent / "copy"
    shutil.copytree(tree, copy)
    subprocess.run(["git", "apply", "-p1"], input=diff, cwd=copy, check=True)
    assert fix("--apply")[0] == 0
    for name, data in files.items():
        assert (copy / name).read_bytes() == (tree / name).read_bytes() == data.replace(b"WASTE", b"FIXED")


def test_a_terminal_sees_colours_and_no_control_characters(
    fix: Any, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "a.py").write_text("x = '\x1b[2J' + WASTE\n")
    monkeypatch.setenv("FORCE_COLOR", "1")
    out = fix("-q")[1]
    assert "\033[32m+x = '" in out
    assert "\x1b[2J" not in out


def test_choice_of_rules(fix: Any, tree: Path) -> None:
    (tree / "a.py").write_text("WASTE = RISK\n")
    assert fix("--diff", "--select", "TST102") == (0, "", "")
    assert fix("--diff", "--select", "TST101,TST102", "--ignore", "waste-word") == (0, "", "")
    assert fix("--select", "TST999")[0] == 2


def test_what_is_suppressed_or_ignored_is_not_fixed(fix: Any, tree: Path) -> None:
    text = "WASTE\nWASTE  # gpulint: ignore[TST101] needed\n"
    (tree / "a.py").write_text(text)
    (tree / "b.py").write_text("WASTE\n")
    (tree / "gpulint.toml").write_text('per-file-ignores = { "b.py" = ["TST101"] }\n')
    fix("--apply")
    assert (tree / "a.py").read_text() == text.replace("WASTE", "FIXED", 1)
    assert (tree / "b.py").read_text() == "WASTE\n"


def test_only_what_was_named_is_fixed(fix: Any, tree: Path) -> None:
    for name in ("a.py", "b.py"):
        (tree / name).write_text("WASTE\n")
    fix("--apply", "a.py")
    assert [(tree / name).read_text() for name in ("a.py", "b.py")] == ["FIXED\n", "WASTE\n"]


def test_json(fix: Any, tree: Path) -> None:
    (tree / "a.py").write_text("WASTE\nRISK\nHINT\n")
    code, out, _ = fix("--output-format", "json")
    waste, risk, hint = json.loads(out)
    assert code == 0
    assert (waste["code"], waste["line"], waste["applied"], waste["state"], waste["round"]) == (
        "TST101",
        1,
        True,
        "applied",
        1,
    )
    place = {"line": 1, "column": 1, "end_line": 1, "end_column": 6, "cell": None}
    assert waste["fix"] == {
        "safety": "safe",
        "description": "write something else",
        "edits": [{"path": "a.py", **place, "text": "FIXED"}],
        "files": [],
    }
    assert (risk["applied"], risk["state"], risk["reason"]) == (False, "unsafe", "the fix is unsafe")
    assert (hint["applied"], hint["state"], hint["fix"]) == (False, "unfixable", None)


def test_places_in_json_are_those_on_disk(fix: Any, repairs: Any, tree: Path) -> None:
    def insert_above(finding: Any, project: Any) -> Any:
        edits = (Edit(finding.path, Span(1, 1, 1, 1), "import a\n"), Edit(finding.path, finding.span, "FIXED"))
        return Fix("import and use", Safety.SAFE, edits)

    repairs["TST101"] = insert_above
    (tree / "a.py").write_text("x = 1\nWASTE\nRISK\n")
    assert [(one["code"], one["line"]) for one in json.loads(fix("--output-format", "json")[1])] == [
        ("TST101", 2),
        ("TST102", 3),
    ]


@pytest.mark.parametrize("arguments", [("-",), ("--apply",), ("--quiet",)])
def test_standard_input(fix: Any, tree: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]) -> None:
    data = b"# coding: latin-1\r\nx = '\xe9', WASTE, RISK"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    code, out, err = fix(*arguments, "--stdin-filename", "a.py")
    assert (code, out.encode("latin-1")) == (0, data.replace(b"WASTE", b"FIXED"))
    assert ("1 more with --unsafe-fixes" in err) == (arguments != ("--quiet",))
    assert not (tree / "a.py").exists()


def test_standard_input_without_findings_comes_back(fix: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"x = (\n")))
    code, out, err = fix("-", "--stdin-filename", "a.py")
    assert (code, out) == (1, "x = (\n")
    assert "a.py:1:5: error: syntax error" in err


def test_files_that_cannot_be_read_do_not_keep_others_from_being_fixed(fix: Any, tree: Path) -> None:
    (tree / "a.py").write_text("WASTE = (\n")
    (tree / "b.py").write_text("WASTE\n")
    code, _, err = fix("--apply")
    assert code == 1
    assert "a.py:1:9: error: syntax error" in err
    assert (tree / "b.py").read_text() == "FIXED\n"


def test_misuse(fix: Any, tree: Path) -> None:
    assert fix("nowhere.py")[0] == 2
    assert fix("--apply", "--diff")[0] == 2
    (tree / "gpulint.toml").write_text("selct = []\n")
    assert fix()[0] == 2


def test_a_crashing_fixer_costs_itself_only(fix: Any, repairs: Any, tree: Path) -> None:
    def crash(finding: Any, project: Any) -> Any:
        raise RuntimeError("oh")

    repairs["TST102"] = crash
    (tree / "a.py").write_text("WASTE = RISK\n")
    code, _, err = fix("--apply")
    assert code == 3
    assert "a.py: error in TST102 fixer of the plugin words: RuntimeError: oh" in err
    assert (tree / "a.py").read_text() == "FIXED = RISK\n"
