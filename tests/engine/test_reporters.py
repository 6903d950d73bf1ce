"""Each output format says where, what, why and what to do, in its own way."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gpulint import engine
from gpulint.impact import Impact

SCHEMA = json.loads((Path(__file__).parent / "data" / "sarif-schema-2.1.0.json").read_text())


@pytest.fixture(autouse=True)
def unknown_impact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is known of what findings cost; ``test_report_groups`` has those of which it is."""
    real = engine.run

    def scan(*arguments: Any, **options: Any) -> Any:
        report = real(*arguments, **options)
        report.results = [
            dataclasses.replace(result, finding=dataclasses.replace(result.finding, impact=Impact()))
            for result in report.results
        ]
        return report

    monkeypatch.setattr(engine, "run", scan)


def test_full(run: Any, tree: Path) -> None:
    (tree / "a.py").write_text("one = 1\ntwo = WASTE  # comment\n")
    _, out, _ = run("scan")
    assert out == (
        "TST101 [*] waste-word (warning): the word WASTE\n"
        " --> a.py:2:7\n"
        "  |\n"
        "1 | one = 1\n"
        "2 | two = WASTE  # comment\n"
        "  |       ^^^^^\n"
        "  note: a.py:2:7: the same place\n"
        "  why: Words are not free.\n"
        "  help: Write FIXED.\n"
        "  see: https://gpulint.github.io/gpulint/rules/tst101-waste-word/\n"
        "  fix (safe): Write FIXED instead.\n"
        "  |\n"
        "2 |- two = WASTE  # comment\n"
        "  |+ two = FIXED  # comment\n"
        "\n"
        "Found 1 finding (1 warning) in 1 file.\n"
        "[*] 1 fixable with `gpulint fix --apply`.\n"
    )


def test_full_says_why_there_is_no_fix(run: Any, tree: Path) -> None:
    (tree / "a.py").write_text("WASTE  # KEEP\n")
    assert "  no fix: the line says KEEP\n" in run("scan")[1]


@pytest.mark.parametrize(
    ("line", "shown", "blanks"),
    [
        ("\tx = WASTE", "    x = WASTE", 8),
        ("x\t= WASTE", "x   = WASTE", 6),
        ("s = '漢字', WASTE", "s = '漢字', WASTE", 12),
        ("e = '🔥', WASTE", "e = '🔥', WASTE", 10),
        ("c = 'e\u0301', WASTE", "c = 'e\u0301', WASTE", 9),
        ("b = '\x1b[31m', WASTE", "b = '\\x1b[31m', WASTE", 16),
    ],
)
def test_underline_stands_under_the_span(run: Any, tree: Path, line: str, shown: str, blanks: int) -> None:
    (tree / "a.py").write_text(line + "\n", encoding="utf-8")
    lines = run("scan")[1].splitlines()
    assert lines[3] == "1 | " + shown
    assert lines[4] == "  | " + " " * blanks + "^^^^^"


def test_colour_only_when_asked_for(run: Any, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "a.py").write_text("WASTE\n")
    assert "\033" not in run("scan")[1]
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\033[1;33mTST101" in run("scan")[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\033" not in run("scan")[1]


def test_json(run: Any, tree: Path) -> None:
    (tree / "sub").mkdir()
    (tree / "sub" / "a.py").write_text("x = '漢字', WASTE\n", encoding="utf-8")
    (found,) = json.loads(run("scan", "--output-format", "json")[1])
    place = {"line": 1, "column": 11, "end_line": 1, "end_column": 16, "cell": None}
    assert found == {
        "code": "TST101",
        "name": "waste-word",
        "category": "API Misuse",
        "dimension": "library",
        "severity": "warning",
        "impact": {"level": "medium", "basis": "", "gpu_share": None, "gpu_hours": None},
        "message": "the word WASTE",
        "why": "Words are not free.",
        "worth": "",  # the study says nothing about rules of plugins
        "help": "Write FIXED.",
        "path": "sub/a.py",
        **place,
        "fix": {
            "safety": "safe",
            "description": "Write FIXED instead.",
            "edits": [{"path": "sub/a.py", **place, "text": "FIXED"}],
            "files": [],
        },
        "related": [{"path": "sub/a.py", **place, "message": "the same place"}],
        "url": "https://gpulint.github.io/gpulint/rules/tst101-waste-word/",
    }


def test_json_of_nothing_is_an_empty_list(run: Any, tree: Path) -> None:
    assert json.loads(run("scan", "--output-format", "json")[1]) == []


def test_notebook_places_count_in_cells(run: Any, tree: Path, notebook: Any) -> None:
    (tree / "n.ipynb").write_text(notebook("a = 1", "b = 2\nWASTE = 3"))
    (found,) = json.loads(run("scan", "--output-format", "json")[1])
    assert (found["cell"], found["line"], found["column"]) == (1, 2, 1)
    assert run("scan", "--output-format", "concise")[1].startswith("n.ipynb:cell 1:2:1: TST101")
    assert "2 | WASTE = 3" in run("scan")[1]


def test_sarif_is_valid_and_complete(run: Any, tree: Path, notebook: Any) -> None:
    (tree / "a file.py").write_text("x = WASTE\nHINT\n# BOOM\n")
    (tree / "b.py").write_text("def f(:\n")
    (tree / "n.ipynb").write_text(notebook("WASTE = 3"))
    code, out, _ = run("scan", "--output-format", "sarif")
    log = json.loads(out)
    jsonschema.Draft4Validator(SCHEMA).validate(log)
    (sarif_run,) = log["runs"]
    waste, hint, cell = sarif_run["results"]
    assert (code, waste["level"], hint["level"]) == (3, "warning", "note")
    assert waste["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "a%20file.py", "uriBaseId": "SRCROOT"},
        "region": {"startLine": 1, "startColumn": 5, "endLine": 1, "endColumn": 10},
    }
    (change,) = waste["fixes"][0]["artifactChanges"]
    assert change["replacements"][0]["insertedContent"] == {"text": "FIXED"}
    region = cell["locations"][0]["physicalLocation"]["region"]
    text = (tree / "n.ipynb").read_text()
    assert text[region["startColumn"] - 1 : region["endColumn"] - 1] == "WASTE"
    assert cell["locations"][0]["logicalLocations"][0]["name"] == "cell 0, line 1"
    rule = sarif_run["tool"]["driver"]["rules"][waste["ruleIndex"]]
    assert rule["id"] == "TST101"
    assert rule["properties"]["category"] == "API Misuse"
    assert rule["helpUri"].endswith("tst101-waste-word/")
    messages = [one["message"]["text"] for one in sarif_run["invocations"][0]["toolExecutionNotifications"]]
    assert any("syntax error" in message for message in messages)
    assert any("error in TST201 of the plugin words" in message for message in messages)
    assert sarif_run["invocations"][0]["executionSuccessful"] is False


@pytest.mark.parametrize("indent", [None, 1])
def test_sarif_fixes_of_notebooks_change_the_json(run: Any, tree: Path, notebook: Any, indent: int | None) -> None:
    content = json.loads(notebook("\n", "s = '\t\u00e9\U0001f525', \"\\\\\", WASTE\nHINT"))
    if indent is not None:
        for cell in content["cells"]:
            cell["source"] = cell["source"].splitlines(keepends=True)
    path = tree / "n.ipynb"
    path.write_text(json.dumps(content, indent=indent))
    log = json.loads(run("scan", "--output-format", "sarif")[1])
    jsonschema.Draft4Validator(SCHEMA).validate(log)
    waste, hint = log["runs"][0]["results"]
    lines = path.read_text().splitlines(keepends=True)
    where = {word: next(n for n, line in enumerate(lines, 1) if word in line) for word in ("WASTE", "HINT")}
    assert hint["locations"][0]["physicalLocation"]["region"]["startLine"] == where["HINT"]
    (replacement,) = waste["fixes"][0]["artifactChanges"][0]["replacements"]
    region = replacement["deletedRegion"]
    assert region["startLine"] == region["endLine"] == where["WASTE"]
    line = lines[region["startLine"] - 1]
    new = line[: region["startColumn"] - 1] + replacement["insertedContent"]["text"] + line[region["endColumn"] - 1 :]
    lines[region["startLine"] - 1] = new
    fixed = json.loads("".join(lines))
    assert "".join(fixed["cells"][1]["source"]) == "".join(content["cells"][1]["source"]).replace("WASTE", "FIXED")


def test_sarif_fingerprints_do_not_know_the_checkout(run: Any, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marks = []
    for name in ("one", "another/two"):
        root = tree.parent / name
        (root / "pkg").mkdir(parents=True)
        (root / "gpulint.toml").touch()
        (root / "pkg" / "a.py").write_text("WASTE\n")
        for folder in (root, root / "pkg", tree):
            monkeypatch.chdir(folder)
            log = json.loads(run("scan", str(root), "--output-format", "sarif")[1])
            marks += [result["partialFingerprints"]["gpulint/v1"] for result in log["runs"][0]["results"]]
    assert len(marks) == 6
    assert len(set(marks)) == 1


def test_sarif_fingerprints_survive_line_shifts(run: Any, tree: Path) -> None:
    def marks() -> list[str]:
        log = json.loads(run("scan", "--output-format", "sarif")[1])
        return [result["partialFingerprints"]["gpulint/v1"] for result in log["runs"][0]["results"]]

    (tree / "a.py").write_text("x = WASTE\nx = WASTE\ny = WASTE\n")
    before = marks()
    (tree / "a.py").write_text("# a comment\n\nx = WASTE\nprint()\nx =  WASTE\nif x:\n    y = WASTE\n")
    assert marks() == before
    assert len(set(before)) == 3


def test_github_escapes(run: Any, tree: Path, notebook: Any) -> None:
    (tree / "a,b%.py").write_text("x = WASTE\nHINT\n")
    (tree / "n.ipynb").write_text(notebook("WASTE = 3"))
    column = notebook("WASTE = 3").index("WASTE") + 1
    assert run("scan", "--output-format", "github")[1].splitlines() == [
        "::warning file=a%2Cb%25.py,title=TST101 waste-word,line=1,endLine=1,col=5,endColumn=10::"
        "the word WASTE%0AWrite FIXED.",
        "::notice file=a%2Cb%25.py,title=TST102 hint-word,line=2,endLine=2,col=1,endColumn=5::the word HINT",
        f"::warning file=n.ipynb,title=TST101 waste-word,line=1,endLine=1,col={column},endColumn={column + 5}::"
        "cell 0, line 1: the word WASTE%0AWrite FIXED.",
    ]


def test_full_explains_a_rule_once(run: Any, tree: Path) -> None:
    (tree / "a.py").write_text("WASTE\nWASTE\nHINT\n")
    out = run("scan", "--verbose")[1]
    assert out.count("TST101 [*] waste-word") == out.count("  help: Write FIXED.") == 2
    assert out.count("  why: Words are not free.") == 2  # TST101's and TST102's
    assert out.count("  see: https://gpulint.github.io/gpulint/rules/tst101-waste-word/") == 1


def test_full_does_not_break_paths(run: Any, tree: Path) -> None:
    from gpulint.reporters.terminal_text import folded

    path = "/mnt/blob/some-folder/" + "with-hyphens-" * 8
    assert any(path in line for line in folded(f"write to {path} less often", 40))


def test_the_summary_counts_what_was_not_checked(run: Any, tree: Path) -> None:
    (tree / "a.py").write_text("WASTE\n")
    (tree / "b.py").write_text("def f(:\n    WASTE\n")
    (tree / "c.py").write_text("1 +\nWASTE\n")
    (tree / "d.py").write_text("1 +\n")
    code, out, _ = run("scan")
    assert code == 1
    failed = " 1 file could not be checked. 2 files could not be checked completely."
    assert out.splitlines()[-2].endswith(" in 3 files, those of one cause together (1 shown)." + failed)
    assert out.splitlines()[-1] == "[*] 3 fixable with `gpulint fix --apply`."
    for name in "abc":
        (tree / f"{name}.py").unlink()
    assert run("scan")[1] == "1 file could not be checked.\n"
    assert run("scan", "-q")[1] == ""
