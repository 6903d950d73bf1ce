"""Several formats in one run, and the formats that CI systems read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest


def test_each_file_belongs_to_the_format_before_it(run: Any, tree: Path) -> None:
    (tree / "a.py").write_text("WASTE\n")
    code, out, _ = run(
        "scan", "--output-format", "sarif", "--output-file", "x.sarif", "--output-format", "concise",
        "--output-format", "json", "--output-file", "x.json",
    )  # fmt: skip
    assert code == 1
    assert out.startswith("a.py:1:1: TST101 [*] [waste-word] the word WASTE (warning)\nFound 1 finding ")
    assert json.loads((tree / "x.sarif").read_text())["version"] == "2.1.0"
    assert json.loads((tree / "x.json").read_text())[0]["fix"]["safety"] == "safe"


@pytest.mark.parametrize(
    "options",
    [
        ["--output-format", "json", "--output-file", "x.txt"],
        ["--output-file", "x.txt", "--output-format", "json"],
        ["--output-file", "x.txt", "--output-format", "json", "--output-format", "concise"],
        ["--output-file", "x.txt", "--output-format", "json", "--output-file", "y", "--output-format", "sarif"],
    ],
)
def test_a_file_and_its_format_in_either_order(run: Any, tree: Path, options: list[str]) -> None:
    (tree / "a.py").write_text("WASTE\n")
    assert run("scan", *options)[0] == 1
    assert json.loads((tree / "x.txt").read_text())[0]["code"] == "TST101"


@pytest.mark.parametrize(
    ("name", "start"), [("x.json", "["), ("x.SARIF", "{"), ("x.xml", "<?xml"), ("x.txt", "TST101 [*] waste-word")]
)
def test_the_suffix_says_the_format_where_no_option_does(run: Any, tree: Path, name: str, start: str) -> None:
    (tree / "a.py").write_text("WASTE\n")
    assert run("scan", "--output-file", name)[:2] == (1, "")
    assert (tree / name).read_text().startswith(start)


def test_statistics_go_with_the_format_for_people(run: Any, tree: Path) -> None:
    (tree / "a.py").write_text("WASTE\n")
    options = ("--output-format", "json", "--output-file", "x.json", "--output-format", "concise")
    _, out, err = run("scan", "--statistics", *options)
    assert out.endswith("     1 TST101 waste-word\n")
    assert err == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--output-format", "json", "--output-format", "sarif"], "json and sarif would both go to standard output"),
        (["--output-format", "json", "--output-file", "x", "--output-file", "y"], "y has no --output-format"),
        (["--output-file", "x", "--output-file", "y"], "y has no --output-format"),
        (
            ["--output-format", "json", "--output-file", "x", "--output-format", "sarif", "--output-file", "./x"],
            "twice",
        ),
        (["--output-format", "json", "--output-file", "a.py"], "one of the files to scan"),
        (["--output-format", "json", "--output-file", "no/x"], "no such folder"),
        (["--output-format", "xml"], "--output-format: unknown value 'xml' (one of full, concise, html, json,"),
        (["--output-format", "jsn"], "--output-format: unknown value 'jsn'; did you mean 'json'?"),
    ],
)
def test_outputs_that_cannot_be_meant(run: Any, tree: Path, options: list[str], message: str) -> None:
    (tree / "a.py").write_text("WASTE\n")
    code, out, err = run("scan", *options)
    assert (code, out) == (2, "")
    assert message in err
    assert [path.name for path in tree.iterdir()] == ["a.py"]


GITLAB = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "severity", "location"],
        "properties": {
            "description": {"type": "string", "minLength": 1},
            "check_name": {"type": "string"},
            "fingerprint": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": {
                "type": "object",
                "required": ["path", "lines"],
                "properties": {
                    "path": {"type": "string", "pattern": r"^[^./]"},
                    "lines": {"required": ["begin"], "properties": {"begin": {"type": "integer", "minimum": 1}}},
                },
            },
        },
    },
}


def test_gitlab(run: Any, tree: Path, notebook: Any) -> None:
    (tree / "a.py").write_text("x = WASTE\nx = WASTE\nHINT\n# BOOM\n")
    (tree / "b.py").write_text("x = WASTE + WASTE\n")
    (tree / "n.ipynb").write_text(notebook("WASTE"))
    found = json.loads(run("scan", "--output-format", "gitlab")[1])
    jsonschema.validate(found, GITLAB)
    assert len({one["fingerprint"] for one in found}) == len(found) == 6
    assert [(one["location"]["path"], one["location"]["lines"]["begin"]) for one in found[:3]] == [
        ("a.py", 1), ("a.py", 2), ("a.py", 3),
    ]  # fmt: skip
    assert [one["severity"] for one in found[1:3]] == ["major", "info"]
    assert found[0]["check_name"] == "TST101 waste-word"
    assert found[-1]["description"].startswith("cell 0, line 1: the word WASTE")


def test_gitlab_of_nothing_is_an_empty_list(run: Any, tree: Path) -> None:
    assert json.loads(run("scan", "--output-format", "gitlab")[1]) == []


def test_junit(run: Any, tree: Path) -> None:
    (tree / "a & b.py").write_text('x = "\x0c<é>", WASTE, WASTE\n')
    (tree / "c.py").write_text("HINT\n# BOOM\n")
    (tree / "d.py").write_text("def f(:\n")
    root = ElementTree.fromstring(run("scan", "--output-format", "junit")[1].encode())
    assert (root.tag, root.get("tests"), root.get("failures"), root.get("errors")) == ("testsuites", "5", "3", "2")
    assert {child.tag for child in root} == {"testsuite"}
    for suite in root:
        cases = suite.findall("testcase")
        assert int(suite.get("tests", "")) == len(cases) == len({case.get("name") for case in cases})
        assert int(suite.get("failures", "")) == len(suite.findall("testcase/failure"))
        assert int(suite.get("errors", "")) == len(suite.findall("testcase/error"))
        assert all(case.get("classname") == suite.get("name") for case in cases)
    case = root.find("testsuite[@name='a & b.py']/testcase")
    assert case is not None
    assert (case.get("name"), case.get("file"), case.get("line")) == (
        "TST101 waste-word: the word WASTE", "a & b.py", "1",
    )  # fmt: skip
    failure = case.find("failure")
    assert failure is not None
    assert failure.get("type") == "TST101"
    assert "Write FIXED." in (failure.text or "")
    error = root.find("testsuite[@name='d.py']/testcase/error")
    assert error is not None
    assert "syntax error" in error.get("message", "")


def test_junit_of_nothing_passes(run: Any, tree: Path) -> None:
    root = ElementTree.fromstring(run("scan", "--output-format", "junit")[1].encode())
    assert [case.get("name") for case in root.iter("testcase")] == ["no findings"]
    assert root.find(".//failure") is None


_POSITION = {
    "type": "object",
    "additionalProperties": False,
    "required": ["line", "column"],
    "properties": {"line": {"type": "integer", "minimum": 1}, "column": {"type": "integer", "minimum": 1}},
}
_RANGE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["start"],
    "properties": {"start": _POSITION, "end": _POSITION},
}
_LOCATION = {
    "type": "object",
    "additionalProperties": False,
    "required": ["path"],
    "properties": {"path": {"type": "string"}, "range": _RANGE},
}
_NAMED = {"type": "object", "additionalProperties": False, "properties": {"url": {"type": "string"}}}
RDJSON = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "source": {**_NAMED, "properties": {"name": {"type": "string"}, "url": {"type": "string"}}},
        "severity": {"enum": ["UNKNOWN_SEVERITY", "ERROR", "WARNING", "INFO"]},
        "diagnostics": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["message", "location"],
                "properties": {
                    "message": {"type": "string"},
                    "location": _LOCATION,
                    "severity": {"enum": ["UNKNOWN_SEVERITY", "ERROR", "WARNING", "INFO"]},
                    "code": {**_NAMED, "properties": {"value": {"type": "string"}, "url": {"type": "string"}}},
                    "suggestions": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "additionalProperties": False,
                            "required": ["range", "text"],
                            "properties": {"range": _RANGE, "text": {"type": "string"}},
                        },
                    },
                    "related_locations": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "additionalProperties": False,
                            "required": ["location"],
                            "properties": {"message": {"type": "string"}, "location": _LOCATION},
                        },
                    },
                },
            },
        },
    },
}
"""The messages of reviewdog's ``reviewdog.proto``, written down as a schema."""


def rdjson(run: Any, *options: str) -> list[Any]:
    report = json.loads(run("scan", "--output-format", "rdjson", *options)[1])
    jsonschema.validate(report, RDJSON)
    assert report["source"]["name"] == "gpulint"
    diagnostics: list[Any] = report["diagnostics"]
    return diagnostics


def test_rdjson_counts_bytes(run: Any, tree: Path, notebook: Any) -> None:
    # The proto's own example: b stands in column 6 behind a and a character of four bytes.
    (tree / "a.py").write_text("'a\U00010400', WASTE\nHINT\n", encoding="utf-8")
    (tree / "n.ipynb").write_text(notebook("WASTE"))
    waste, hint, cell = rdjson(run)
    place = {"start": {"line": 1, "column": 10}, "end": {"line": 1, "column": 15}}
    assert waste["location"] == {"path": "a.py", "range": place}
    assert waste["suggestions"] == [{"range": place, "text": "FIXED"}]
    assert waste["code"]["value"] == "TST101"
    assert waste["related_locations"][0]["message"] == "the same place"
    assert (waste["severity"], hint["severity"]) == ("WARNING", "INFO")
    assert "suggestions" not in hint
    text = (tree / "n.ipynb").read_text()
    (suggestion,) = cell["suggestions"]
    start, end = (suggestion["range"][key]["column"] - 1 for key in ("start", "end"))
    assert text[start:end] == "WASTE"
    assert json.loads(text[:start] + suggestion["text"] + text[end:])["cells"][0]["source"] == "FIXED"
    assert cell["message"].startswith("cell 0, line 1: ")


def test_rdjson_suggests_a_fix_of_several_edits_as_one(run: Any, tree: Path) -> None:
    text = "import torch.utils.data as d\n\nloader = d.DataLoader(\n    [1, 2, 3],\n    num_workers=2,\n)\n" + (
        "for epoch in range(3):\n    for batch in loader:\n        batch.to('cuda')\n"
    )
    (tree / "train.py").write_text(text)
    found = [one for one in rdjson(run, "--select", "GPU301,GPU302,GPU304") if "suggestions" in one]
    assert found
    for one in found:
        (suggestion,) = one["suggestions"]
        start, end = suggestion["range"]["start"], suggestion["range"]["end"]
        lines = text.splitlines(keepends=True)
        first = sum(map(len, lines[: start["line"] - 1])) + start["column"] - 1
        last = sum(map(len, lines[: end["line"] - 1])) + end["column"] - 1
        fixed = text[:first] + suggestion["text"] + text[last:]
        compile(fixed, "train.py", "exec")
        (tree / "train.py").write_text(fixed)
        assert one["code"]["value"] not in {
            two["code"]["value"] for two in rdjson(run, "--select", one["code"]["value"])
        }
        (tree / "train.py").write_text(text)


@pytest.mark.parametrize("name", ["../outside.json", "sub/../../outside.json"])
def test_a_report_may_be_beside_the_project(run: Any, tree: Path, name: str) -> None:
    (tree / "a.py").write_text("WASTE\n")
    (tree / "sub").mkdir()
    assert run("scan", "--output-file", name)[0] == 1
    assert (tree.parent / "outside.json").read_text().startswith("[")


def test_no_report_is_written_through_a_link_out_of_the_project(run: Any, tree: Path) -> None:
    (tree / "a.py").write_text("WASTE\n")
    (tree.parent / "elsewhere").mkdir()
    (tree / "link").symlink_to(tree.parent / "elsewhere")
    code, _, err = run("scan", "--output-file", "link/outside.json")
    assert code == 2
    assert "--output-file link/outside.json: a link out of the project is not written through" in err
