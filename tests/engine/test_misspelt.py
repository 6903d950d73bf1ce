"""Comments that were meant to suppress findings and do not: a warning on standard error, whatever is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

UNKNOWN = "suppression of an unknown rule: "


@pytest.mark.parametrize(
    ("comment", "warning"),
    [
        ("gpulint: ignore[TST110]", UNKNOWN + "'TST110'; did you mean 'TST101'?"),
        ("gpulint: ignore[waste-wrod]", UNKNOWN + "'waste-wrod'; did you mean 'waste-word'?"),
        ("gpulint: ignore-file[TST101, NOPE]", UNKNOWN + "'NOPE'"),
        ("gpulint: disable=TST102", "no suppression: 'gpulint: disable=TST102'; did you mean"),
        ("gpulint: ingore[TST101, hint-word]", "did you mean '# gpulint: ignore[TST101, hint-word]'?"),
        ("gpulint: off", "did you mean '# gpulint: ignore[CODE]'?"),
        ("gpulint: ignore TST101", "this suppresses every rule; did you mean '# gpulint: ignore[TST101]'?"),
        ("gpulint: ignore[]", "'ignore[]' suppresses nothing; name rules, such as 'ignore[GPU301]'"),
        ("noqa: TST101", "gpulint does not read noqa; write '# gpulint: ignore[TST101]'"),
        ("noqa: E501,TST101", "gpulint does not read noqa; write '# gpulint: ignore[TST101]'"),
    ],
)
@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("a.py", "x = 1  # {}\n", "a.py:1:8"),
        ("job.sh", "#!/bin/bash\ntrue # {}\n", "job.sh:2:6"),
        ("Dockerfile", "FROM x\n# {}\n", "Dockerfile:2:1"),
    ],
)
def test_a_misspelt_suppression(
    run: Any, tree: Path, comment: str, warning: str, name: str, text: str, place: str
) -> None:
    (tree / name).write_text(text.format(comment))
    code, out, err = run("scan")
    assert (code, out) == (0, "No findings.\n")
    assert err.startswith(f"{place}: warning: ") and warning.replace("'gpulint: d", "'# gpulint: d") in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "comment",
    [
        "gpulint: ignore[TST101]",
        "gpulint: IGNORE[tst102, Waste-Word] a reason [with brackets]",
        "gpulint: ignore-file",
        "gpulint: ignore the batches stay on the CPU",
        "gpulint: ignore - see TST101 for the reason",
        "gpulint: ignore[TST301]",  # off by default, but known
        "gpulint: ignore[GPU900]",
        "noqa",
        "noqa: F401",
        "noqa: F401  # gpulint: ignore[TST101]",
        "see gpulint",
    ],
)
def test_comments_that_say_what_they_do(run: Any, tree: Path, comment: str) -> None:
    (tree / "a.py").write_text(f"x = 1  # {comment}\n")
    assert run("scan") == (0, "No findings.\n", "")


def test_text_in_a_string_is_no_comment(run: Any, tree: Path) -> None:
    (tree / "a.py").write_text('x = "# gpulint: ignore[TST999]"\n')
    assert run("scan") == (0, "No findings.\n", "")


def test_a_cell_is_named(run: Any, tree: Path, notebook: Any) -> None:
    (tree / "n.ipynb").write_text(notebook("x = 1", "y = 1\nz = 1  # gpulint: ignore[TST110]"))
    first = run("scan")[2]
    assert first.startswith("n.ipynb:cell 1:2:8: warning: ")
    assert run("scan")[2] == first  # now from the cache


def test_quiet_hides_warnings(run: Any, tree: Path) -> None:
    (tree / "a.py").write_text("x = 1  # gpulint: disable=TST101\n")
    assert run("scan", "-q") == (0, "", "")


def test_of_unchanged_files_nothing_is_said(run: Any, tree: Path) -> None:
    import subprocess

    (tree / "a.py").write_text("x = 1  # gpulint: disable=TST101\n")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True, cwd=tree)
    (tree / "b.py").write_text("y = 1  # gpulint: disable=TST101\n")
    err = run("scan", "--diff", "HEAD")[2]
    assert "b.py:1:8: warning: " in err and "a.py" not in err
