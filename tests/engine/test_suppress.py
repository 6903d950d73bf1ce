"""Suppression comments: where they work, where they must not, and which are no longer needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


def codes(run: Any, *options: str) -> list[str]:
    return [found["code"] for found in json.loads(run("scan", "--output-format", "json", *options)[1])]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("WASTE  # gpulint: ignore[TST101] needed here\n", []),
        ("WASTE  # gpulint: ignore[waste-word]\n", []),
        ("WASTE  # gpulint:ignore\n", []),
        ("WASTE  # type: ignore # gpulint: ignore[TST101]\n", []),
        ("WASTE + HINT  # gpulint: ignore[TST101]\n", ["TST102"]),
        ("WASTE + HINT  # gpulint: ignore[TST101, TST102]\n", []),
        ("WASTE  # gpulint: ignore[TST102]\n", ["TST101"]),
        ("WASTE  # gpulint: ignore[]\n", ["TST101"]),
        ("WASTE  # gpulint: ignored\n", ["TST101"]),
        ("WASTE\nx = 1  # gpulint: ignore\n", ["TST101"]),
        ("# gpulint: ignore[TST101]\nWASTE\nWASTE\n", ["TST101"]),
        ("x = 1\nWASTE\n# gpulint: ignore-file\n", []),
        ("# gpulint: ignore-file[TST101]\nWASTE\nHINT\n", ["TST102"]),
        ("x = '# gpulint: ignore', WASTE\n", ["TST101"]),
        ('"""\n# gpulint: ignore-file\n"""\nWASTE\n', ["TST101"]),
        ("def f(:\n    WASTE  # gpulint: ignore\n", []),
    ],
)
def test_python(run: Any, tree: Path, text: str, expected: list[str]) -> None:
    (tree / "a.py").write_text(text)
    assert codes(run) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("echo WASTE  # gpulint: ignore[TST101]\n", []),
        ("echo 'WASTE # gpulint: ignore'\n", ["TST101"]),
        ("cat <<EOF\nWASTE # gpulint: ignore\nEOF\n", ["TST101"]),
        ("# gpulint: ignore[TST101]\nsrun \\\n  --gres=gpu:4 \\\n  echo WASTE\n", []),
        ("# gpulint: ignore[TST101]\necho \\\n  a\necho WASTE\n", ["TST101"]),
        ("#!/bin/bash\n# gpulint: ignore-file\nWASTE\n", []),
    ],
)
def test_shell(run: Any, tree: Path, text: str, expected: list[str]) -> None:
    (tree / "a.sh").write_text(text)
    assert codes(run) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: WASTE  # gpulint: ignore[TST101]\n", []),
        ('a: "WASTE # gpulint: ignore"\n', ["TST101"]),
        ("# gpulint: ignore-file\na: WASTE\n", []),
        ("# gpulint: ignore\na: WASTE\nb: WASTE\n", ["TST101"]),
        ("run: |\n  echo WASTE  # gpulint: ignore\n", []),
    ],
)
def test_yaml(run: Any, tree: Path, text: str, expected: list[str]) -> None:
    (tree / "a.yaml").write_text(text)
    assert codes(run) == expected


def test_dockerfile(run: Any, tree: Path) -> None:
    (tree / "Dockerfile").write_text('FROM a\n# gpulint: ignore\nCMD WASTE\nCMD ["# gpulint: ignore", "WASTE"]\n')
    (found,) = json.loads(run("scan", "--output-format", "json")[1])
    assert found["line"] == 4


def test_notebook_comments_hold_in_their_cell(run: Any, tree: Path, notebook: Any) -> None:
    (tree / "n.ipynb").write_text(
        notebook("!nvidia-smi\nWASTE  # gpulint: ignore", "WASTE", "%%bash\necho WASTE # gpulint: ignore")
    )
    (found,) = json.loads(run("scan", "--output-format", "json")[1])
    assert found["cell"] == 1


def test_unused_ignores_are_reported_on_request(run: Any, tree: Path) -> None:
    (tree / "a.py").write_text(
        "WASTE  # gpulint: ignore[TST101, TST102]\n"
        "x = 1  # gpulint: ignore\n"
        "y = 2  # gpulint: ignore[off-word]\n"
        "WASTE  # gpulint: ignore[waste-word]\n"
    )
    assert codes(run) == []
    _, out, _ = run("scan", "--report-unused-ignores", "--output-format", "concise")
    # Line 3 names a rule that did not run, so nobody knows whether it is still needed.
    assert out.splitlines()[:-1] == [
        "a.py:1:8: GPU900 [unused-ignore] suppression of TST102 hides no finding (warning)",
        "a.py:2:8: GPU900 [unused-ignore] suppression hides no finding (warning)",
    ]


def test_per_file_ignores(run: Any, tree: Path) -> None:
    (tree / "tools").mkdir()
    (tree / "tools" / "a.py").write_text("WASTE = HINT\n")
    (tree / "a.py").write_text("WASTE\n")
    (tree / "gpulint.toml").write_text('[per-file-ignores]\n"tools/*" = ["waste-word"]\n')
    assert codes(run) == ["TST101", "TST102"]


def test_test_files_are_silent_unless_included(run: Any, tree: Path) -> None:
    (tree / "tests").mkdir()
    (tree / "tests" / "a.py").write_text("WASTE\n")
    (tree / "test_b.py").write_text("WASTE\n")
    assert codes(run) == []
    (tree / "gpulint.toml").write_text("include-tests = true\n")
    assert codes(run) == ["TST101", "TST101"]
