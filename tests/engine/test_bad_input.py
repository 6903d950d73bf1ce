"""Whatever a tree holds: each bad file is reported once, the rest is still scanned, nothing ends in a traceback."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpulint.hooks import hookimpl


@pytest.fixture
def scan(run: Any, tree: Path) -> Callable[[str, bytes], tuple[int, list[str], list[str]]]:
    """Scan one file beside a good one -> (exit code, places of findings, lines on standard error)."""

    def call(name: str, data: bytes) -> tuple[int, list[str], list[str]]:
        (tree / name).write_bytes(data)
        (tree / "good.py").write_text("WASTE\n")
        code, out, err = run("scan", "--output-format", "concise", "--show-notes")
        assert "Traceback" not in err
        places = [line.split(": ")[0] for line in out.splitlines() if ": TST" in line]
        assert "good.py:1:1" in places
        places.remove("good.py:1:1")
        return code, places, err.splitlines()

    return call


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.py", b"x = 1\ndef f(:\n", "a.py:2:7: error: syntax error: invalid syntax"),
        ("a.py", b"print 'hello'\n", "a.py:1:1: error: syntax error: Missing parentheses in call to 'print'"),
        ("a.py", b"try:\n    x\nexcept A, e:\n    y\n", "a.py:3:8: error: syntax error: multiple exception types"),
        ("a.py", b"x = 1\n\0\0\n", "a.py: error: binary file (contains NUL bytes)"),
        ("a.py", b"# coding: no-such-codec\n", "a.py: error: unknown encoding 'no-such-codec' declared"),
        ("a.py", b"if x:\n\ty = 1\n        z = 2\n", "a.py:3"),
        ("a.py", b"(" * 3000 + b")" * 3000, "a.py"),
        ("a.ipynb", b'{"cells": [', "a.ipynb:1"),
        ("a.ipynb", b"[]", "a.ipynb"),
        ("a.yaml", b"kind: Job\ncontainers:\n\t- image: nvidia\n", "a.yaml:3"),
        ("a.yaml", b"containers: [nvidia\nkind: Job\n", "a.yaml:2"),
    ],
)
def test_broken_files_are_reported_once(scan: Any, name: str, data: bytes, message: str) -> None:
    code, places, errors = scan(name, data)
    assert code == 1
    assert places == []
    assert len(errors) == 1
    assert errors[0].startswith(message)


@pytest.mark.parametrize(
    ("name", "data", "place"),
    [
        ("a.py", b"\xef\xbb\xbfx = WASTE\r\n", "a.py:1:5"),
        ("a.py", b"if x:\r\n\ty = WASTE\r\n", "a.py:2:6"),
        ("a.py", b"x = 1\rWASTE\r", "a.py:2:1"),
        ("a.py", "# coding: latin-1\ns = 'é'; WASTE\n".encode("latin-1"), "a.py:2:10"),
        ("a.sh", "echo 'é' WASTE\n".encode("latin-1"), "a.sh:1:10"),
        ("a.sh", "echo é WASTE\n".encode("utf-16"), "a.sh:1:8"),
        ("a.sh", b"if [ ; then WASTE\n", "a.sh:1:13"),
        ("a.yaml", b"a: &x WASTE\nb: *x\n---\ncommand: !Tag {python: 1}\n", "a.yaml:1:7"),
        ("a.yaml", b"\xef\xbb\xbfcommand: python WASTE\r\n", "a.yaml:1:17"),
        ("Dockerfile", b"FROM a\r\nRUN <<EOF\r\nWASTE\r\nEOF\r\n", "Dockerfile:3:1"),
    ],
)
def test_odd_but_readable_files_are_scanned(scan: Any, name: str, data: bytes, place: str) -> None:
    code, places, errors = scan(name, data)
    assert (code, places) == (1, [place])
    assert [line for line in errors if "error" in line] == []


@pytest.mark.parametrize("name", ["a.py", "a.sh", "a.yaml", "Dockerfile"])
def test_empty_files_are_clean(scan: Any, name: str) -> None:
    code, places, errors = scan(name, b"")
    assert (code, places) == (1, [])
    assert [line for line in errors if "error" in line] == []


@pytest.mark.parametrize(
    "text",
    [
        "  resources:\n{{ toYaml .Values.x | indent 4 }}\n",
        "{% for x in y %}\nimage: {{ x }}\n{% endfor %}\n",
        "{{- if .Values.a }}\na: 1\n{{- end }}\n",
    ],
)
def test_templates_are_read_as_far_as_they_are_yaml(scan: Any, text: str) -> None:
    _, places, errors = scan("a.yaml", b"containers:\n- image: nvidia\n" + text.encode())
    assert places == []
    assert errors == []


@pytest.mark.parametrize("text", ["a: [{{ x }}\nb: 1\n", "{{ define\n", "a:\n  {% if x %}b: 1\n c: 2{% endif %}\n"])
def test_templates_are_skipped_with_a_note(scan: Any, text: str) -> None:
    _, places, errors = scan("a.yaml", b"containers:\n- image: nvidia\n" + text.encode())
    assert places == []
    assert len(errors) == 1
    assert errors[0].startswith("a.yaml")
    assert "note: " in errors[0]
    assert "template" in errors[0]


def test_file_names_that_are_no_text(run: Any, tree: Path) -> None:
    try:
        (tree / b"bad\xff.py".decode("utf-8", "surrogateescape")).write_text("WASTE\n")
    except OSError:
        pytest.skip("this file system takes no such names")
    for form in ("full", "concise", "json", "sarif", "github"):
        assert run("scan", "--output-format", form, "--output-file", "out")[0] == 1
        assert b"TST101" in (tree / "out").read_bytes()
        if form in ("json", "sarif"):
            json.loads((tree / "out").read_text())


def test_deeply_nested_code_is_a_problem_of_one_file(scan: Any) -> None:
    code, _, errors = scan("a.py", b"x = " + b"-" * 50_000 + b"1\n")
    assert code in (1, 3)
    assert len([line for line in errors if line.startswith("a.py")]) == 1


def test_a_rule_that_raises_costs_itself_on_that_file(run: Any, tree: Path) -> None:
    (tree / "a.py").write_text("x = 1\nBOOM = WASTE\n")
    (tree / "b.py").write_text("BOOM = WASTE\n")
    code, out, err = run("scan", "--output-format", "concise")
    assert code == 3
    assert re.findall(r"TST\d+", out) == ["TST101", "TST201", "TST101"]
    first, last = err.splitlines()
    assert first.startswith(
        "a.py: error in TST201 of the plugin words: RuntimeError: this rule is broken at conftest.py:"
    )
    assert "report errors of the plugin words to its authors" in last
    assert "gpulint/issues" not in err


def test_exit_zero_does_not_hide_internal_errors(run: Any, tree: Path) -> None:
    (tree / "a.py").write_text("x = 1\nBOOM\n")
    assert run("scan", "--exit-zero")[0] == 3


def test_a_plugin_that_fails_is_named_and_the_others_run(run: Any, tree: Path, install: Any) -> None:
    def fail() -> object:
        raise ImportError("no module named 'missing'")

    class Malformed:
        @hookimpl
        def gpulint_rules(self) -> list[object]:
            return ["not a rule"]

    install("broken", fail)
    install("malformed", Malformed)
    (tree / "a.py").write_text("WASTE\n")
    code, out, err = run("scan", "--output-format", "concise")
    assert code == 3
    assert "TST101" in out
    assert "plugin broken does not work: ImportError: no module named 'missing'" in err
    assert "plugin malformed does not work: gpulint_rules returned 'not a rule', which is not a Rule" in err
    assert run("rules")[0] == 3


def test_a_plugin_that_ends_the_process_or_breaks_the_command_line_is_named(run: Any, tree: Path, install: Any) -> None:
    def leave() -> object:
        raise SystemExit("no GPU here")

    class Commands:
        @hookimpl
        def gpulint_commands(self, subparsers: Any) -> None:
            subparsers.add_parser("polish", help="shine").set_defaults(run=lambda args: 0)
            subparsers.add_parser("scan")

    install("leaves", leave)
    install("commands", Commands)
    (tree / "a.py").write_text("WASTE\n")
    code, out, err = run("scan", "--output-format", "concise")
    assert code == 3
    assert "TST101" in out
    assert "plugin leaves does not work: SystemExit: no GPU here" in err
    code, out, err = run("--help")
    assert (code, "polish" in out) == (0, True)
    assert "plugin commands does not work: gpulint_commands raised ArgumentError" in err
    assert run("polish")[0] == 0


def test_broken_cells_of_a_notebook_come_in_their_order(run: Any, tree: Path, notebook: Any) -> None:
    broken = ["x = 1\ny = 2\nz = (", "x = 1\ny = (", "x = (", *["y = ("] * 3]
    (tree / "a.ipynb").write_text(notebook(*broken))
    (tree / "b.py").write_text("x = (")
    _, _, err = run("scan")
    lines = [line for line in err.splitlines() if "syntax error" in line]
    assert [line.partition(": ")[0].rsplit(":", 2)[0] for line in lines[:3]] == [f"a.ipynb:cell {n}" for n in range(3)]
    assert "more cells with syntax errors" in lines[-2] and lines[-1].startswith("b.py")


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n"


@pytest.mark.parametrize("name", ["a.ipynb", "a.py", "a.yaml", "a.sh", "Dockerfile", "Makefile"])
def test_what_git_lfs_has_not_fetched_is_no_error(scan: Any, name: str) -> None:
    code, places, errors = scan(name, POINTER)
    assert (code, places) == (1, [])  # for the finding in the good file
    assert errors == [f"{name}: warning: a Git LFS pointer, not fetched: run `git lfs pull`"]


def test_files_that_git_lfs_has_not_fetched_are_told_once(run: Any, tree: Path) -> None:
    (tree / "notes").mkdir()
    for number in range(3):
        (tree / "notes" / f"{number}.ipynb").write_bytes(POINTER)
    (tree / "notes" / "broken.ipynb").write_bytes(b"version 2")
    _, out, err = run("scan", "--output-format", "sarif")
    (told, broken) = json.loads(out)["runs"][0]["invocations"][0]["toolExecutionNotifications"]
    assert told["message"]["text"] == "3 files are Git LFS pointers, not fetched: run `git lfs pull`"
    assert told["level"] == "warning"
    assert broken["level"] == "error"
    assert err.splitlines()[0] == f"notes: warning: {told['message']['text']}"
    assert "LFS" not in run("scan", "--quiet")[2]
    (tree / "notes" / "broken.ipynb").unlink()
    assert run("scan")[0] == 0


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_an_empty_notebook_holds_nothing(scan: Any, text: str) -> None:
    assert scan("a.ipynb", text.encode())[1:] == ([], [])
