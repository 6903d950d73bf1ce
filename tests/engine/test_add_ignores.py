"""``gpulint scan --add-ignores``: a comment for each finding, where one can stand, and nothing else changed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

HIDE = "# gpulint: ignore[TST101]"


def add(run: Any, *options: str) -> tuple[int, str, str]:
    done: tuple[int, str, str] = run("scan", "--add-ignores", "--output-format", "concise", *options)
    return done


def check(run: Any, path: Path, expected: str) -> None:
    """All findings are hidden by exactly the comments of ``expected``; once more changes nothing."""
    assert add(run, "--report-unused-ignores")[:2] == (0, "")
    assert path.read_bytes().decode() == expected
    assert run("scan", "-q", "--report-unused-ignores")[0] == 0
    assert add(run)[2] == "Suppressed 0 of 0 findings.\n"
    assert path.read_bytes().decode() == expected


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = WASTE\n", f"x = WASTE  {HIDE}\n"),
        ("x = WASTE", f"x = WASTE  {HIDE}"),
        ("x = WASTE\r\ny = WASTE\r\n", f"x = WASTE  {HIDE}\r\ny = WASTE  {HIDE}\r\n"),
        ("x = WASTE  # noqa: F821\n", f"x = WASTE  # noqa: F821  {HIDE}\n"),
        ("x = WASTE + HINT\n", "x = WASTE + HINT  # gpulint: ignore[TST101, TST102]\n"),
        ("x = WASTE  # gpulint: ignore[TST301] why\n", "x = WASTE  # gpulint: ignore[TST301, TST101] why\n"),
        ("# gpulint: ignore[TST301] why\nx = WASTE\n", "# gpulint: ignore[TST301, TST101] why\nx = WASTE\n"),
        ("if x:\n    y = WASTE + \\\n        1\n", f"if x:\n    {HIDE}\n    y = WASTE + \\\n        1\n"),
        ("x = 1 + \\\n    WASTE + \\\n    2\n", f"{HIDE}\nx = 1 + \\\n    WASTE + \\\n    2\n"),
        ("f(WASTE, '''\n''')\n", f"{HIDE}\nf(WASTE, '''\n''')\n"),
        ("def f():\n\tf(WASTE, '''\n''')\n", f"def f():\n\t{HIDE}\n\tf(WASTE, '''\n''')\n"),
        ("f('''a\nb''', WASTE)\n", f"f('''a\nb''', WASTE)  {HIDE}\n"),
        ("s = '# gpulint: ignore[TST301]', WASTE\n", f"s = '# gpulint: ignore[TST301]', WASTE  {HIDE}\n"),
        ("é = '🔥', WASTE\n", f"é = '🔥', WASTE  {HIDE}\n"),
    ],
)
def test_python(run: Any, tree: Path, before: str, after: str) -> None:
    (tree / "a.py").write_bytes(before.encode())
    check(run, tree / "a.py", after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("echo WASTE\n", f"echo WASTE  {HIDE}\n"),
        ("echo 'WASTE'; echo\n", f"echo 'WASTE'; echo  {HIDE}\n"),
        ("echo a \\\n  WASTE \\\n  b\n", f"{HIDE}\necho a \\\n  WASTE \\\n  b\n"),
        ("echo a \\\n  WASTE\n", f"echo a \\\n  WASTE  {HIDE}\n"),
        ("echo 'a\nWASTE\nb'\n", None),
        ("#SBATCH --job-name=WASTE\necho\n", f"{HIDE}\n#SBATCH --job-name=WASTE\necho\n"),
        ("#!/bin/bash WASTE\necho\n", "#!/bin/bash WASTE\n# gpulint: ignore-file[TST101]\necho\n"),
        ("cat <<EOF\na\nWASTE\nEOF\n", f"{HIDE}\ncat <<EOF\na\nWASTE\nEOF\n"),
        ("f \\\n  <<-'EOF' > x\n\tWASTE\n\tEOF\n", f"{HIDE}\nf \\\n  <<-'EOF' > x\n\tWASTE\n\tEOF\n"),
        ("bash <<EOF\necho WASTE\nEOF\n", f"{HIDE}\nbash <<EOF\necho WASTE\nEOF\n"),
    ],
)
def test_shell(run: Any, tree: Path, before: str, after: str | None) -> None:
    path = tree / "a.sh"
    path.write_text(before)
    if after is not None:
        check(run, path, after)
        return
    code, out, err = add(run)
    assert (code, path.read_text()) == (1, before)
    assert out.startswith("a.sh:2:1: TST101")
    assert "a.sh:2: a comment is not possible here; use per-file-ignores to hide TST101\n" in err


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a: WASTE\n", f"a: WASTE  {HIDE}\n"),
        ("a: [1, WASTE, {b: 2}]\n", f"a: [1, WASTE, {{b: 2}}]  {HIDE}\n"),
        ('a: "b\n  WASTE\n  c"\n', None),
        ("a: b\n  WASTE\n  c\n", None),
        ("run: |\n  echo WASTE\n  b\n", f"run: |\n  echo WASTE  {HIDE}\n  b\n"),
        ("run: >\n  WASTE\n  b\n", None),
        ('a: "WASTE\n  c"\n', f'{HIDE}\na: "WASTE\n  c"\n'),
        ("- x: >-  # why\n    b\n- WASTE\n", f"- x: >-  # why\n    b\n- WASTE  {HIDE}\n"),
    ],
)
def test_yaml(run: Any, tree: Path, before: str, after: str | None) -> None:
    path = tree / "a.yaml"
    path.write_text(before)
    if after is not None:
        check(run, path, after)
    else:
        assert add(run)[0] == 1
        assert path.read_text() == before


def test_dockerfile(run: Any, tree: Path) -> None:
    path = tree / "Dockerfile"
    path.write_text("# syntax=docker/dockerfile:1\nFROM a\nENV A=WASTE\nRUN a && \\\n    WASTE && \\\n    b\n")
    check(
        run,
        path,
        f"# syntax=docker/dockerfile:1\nFROM a\n{HIDE}\nENV A=WASTE\nRUN a && \\\n    {HIDE}\n    WASTE && \\\n    b\n",
    )


def test_notebooks_keep_their_format(run: Any, tree: Path) -> None:
    cells = ["!echo WASTE\n%pip install WASTE\n", "%%bash\necho WASTE", "x = 1\nWASTE", "%%bash -c WASTE\necho"]
    content = {
        "cells": [
            {"cell_type": "code", "source": text.splitlines(keepends=True), "outputs": ["é"], "metadata": {}}
            for text in cells
        ],
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {},
    }
    path = tree / "n.ipynb"
    path.write_text(json.dumps(content, indent=3))
    code, out, _ = add(run)
    assert (code, out[:25]) == (1, "n.ipynb:cell 3:1:11: TST1")
    after = json.loads(path.read_text())
    assert ["".join(cell["source"]) for cell in after["cells"]] == [
        f"{HIDE}\n!echo WASTE\n{HIDE}\n%pip install WASTE\n",
        f"%%bash\necho WASTE  {HIDE}",
        f"x = 1\nWASTE  {HIDE}",
        cells[3],
    ]
    for cell, was in zip(after["cells"], content["cells"], strict=True):
        cell["source"] = was["source"]  # type: ignore[index]
    assert after == content
    assert path.read_text().startswith('{\n   "cells": [\n      {\n         "cell_type"')


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            b"# coding: latin-1\nx = '\xe9', WASTE\n",
            f"# coding: latin-1\nx = '\xe9', WASTE  {HIDE}\n".encode("latin-1"),
        ),
        (b"\xef\xbb\xbfWASTE\n", b"\xef\xbb\xbfWASTE  " + HIDE.encode() + b"\n"),
        ("WASTE\n".encode("utf-16"), f"WASTE  {HIDE}\n".encode("utf-16")),
    ],
)
def test_encodings(run: Any, tree: Path, data: bytes, expected: bytes) -> None:
    (tree / "a.py").write_bytes(data)
    assert add(run)[0] == 0
    assert (tree / "a.py").read_bytes() == expected


def test_an_encoding_line_stays_where_it_is(run: Any, tree: Path) -> None:
    text = "f(WASTE, '''\n# coding: latin-1\n''')\n"
    (tree / "a.py").write_text(text)
    assert add(run)[0] == 1
    assert (tree / "a.py").read_text() == text


def test_only_what_is_reported_is_suppressed(run: Any, tree: Path) -> None:
    (tree / "a.py").write_text("WASTE\n")
    run("baseline", "create", "--select", "TST101")
    (tree / "b.py").write_text("WASTE + HINT\n")
    assert add(run, "--severity", "warning")[0] == 0
    assert (tree / "a.py").read_text() == "WASTE\n"
    assert (tree / "b.py").read_text() == f"WASTE + HINT  {HIDE}\n"


def test_what_git_cannot_bring_back_is_not_written(run: Any, tree: Path) -> None:
    subprocess.run(["git", "init", "-q"], check=True)
    (tree / "a.py").write_text("WASTE\n")
    code, out, err = add(run)
    assert (code, out) == (2, "")
    assert "--allow-dirty" in err
    assert (tree / "a.py").read_text() == "WASTE\n"
    assert add(run, "--allow-dirty")[0] == 0
    assert (tree / "a.py").read_text() == f"WASTE  {HIDE}\n"


def test_a_file_that_is_read_only_is_left_alone(run: Any, tree: Path) -> None:
    (tree / "a.py").write_text("WASTE\n")
    (tree / "a.py").chmod(0o444)
    code, out, err = add(run)
    assert (code, out.count("TST101")) == (1, 1)
    assert "read-only" in err
    assert (tree / "a.py").read_text() == "WASTE\n"


@pytest.mark.parametrize("options", [("--stdin-filename", "a.py"), ("--watch",)])
def test_nothing_is_written_unasked(run: Any, tree: Path, options: tuple[str, ...]) -> None:
    code, _, err = add(run, *options)
    assert code == 2
    assert "--add-ignores writes files" in err
