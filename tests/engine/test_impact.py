"""Only findings whose impact is high enough are shown, and all parts of gpulint agree on which these are."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from gpulint import engine
from gpulint.cli import main
from gpulint.impact import Impact, Level

OF_LINE = {"# high": Level.HIGH, "# low": Level.LOW}


@pytest.fixture(autouse=True)
def impacts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Findings have the impact that a comment in their line says."""
    real = engine.run

    def run(project: Any, *arguments: Any, **options: Any) -> Any:
        report = real(project, *arguments, **options)
        results = []
        for result in report.results:
            found = result.finding
            line = project.document(found.path).source.line(found.span.line)
            level = next((level for word, level in OF_LINE.items() if word in line), Level.MEDIUM)
            finding = dataclasses.replace(found, impact=Impact(level, "as the line says"))
            results.append(dataclasses.replace(result, finding=finding))
        report.results = results
        return report

    monkeypatch.setattr(engine, "run", run)


@pytest.fixture
def run(install: object, capsys: pytest.CaptureFixture[str], tree: Path) -> Any:
    """The command line with the default selection, which the word rules are part of."""

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def files(tree: Path) -> Path:
    (tree / "a.py").write_text("WASTE  # high\nWASTE  # medium\nWASTE  # low\n")
    (tree / "sub").mkdir()
    (tree / "sub" / "b.py").write_text("HINT  # low\n")
    return tree


def lines(run: Any, *options: str) -> list[str]:
    found = json.loads(run("scan", "--output-format", "json", "-q", *options)[1])
    return [f"{item['path']}:{item['line']}" for item in found]


def test_low_impact_is_hidden_and_counted(run: Any, files: Path) -> None:
    code, out, _ = run("scan")
    assert code == 1
    assert out.splitlines()[-1] == "2 low-impact findings hidden; --impact low shows them."
    assert lines(run) == ["a.py:1", "a.py:2"]


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (("--impact", "high"), ["a.py:1"]),
        (("--impact", "low"), ["a.py:1", "a.py:2", "a.py:3", "sub/b.py:1"]),
        (("--impact", "all"), ["a.py:1", "a.py:2", "a.py:3", "sub/b.py:1"]),
        (("--select", "hint-word"), ["sub/b.py:1"]),
        (("--select", "ALL"), ["a.py:1", "a.py:2", "a.py:3", "sub/b.py:1"]),
        (("--select", "ALL", "--impact", "medium"), ["a.py:1", "a.py:2"]),
    ],
)
def test_the_command_line_says_what_is_shown(run: Any, files: Path, options: tuple[str, ...], shown: list[str]) -> None:
    assert lines(run, *options) == shown


@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        ('impact = "high"', ["a.py:1"]),
        ('per-rule-impact = { hint-word = "low" }', ["a.py:1", "a.py:2", "sub/b.py:1"]),
        ('per-rule-impact = { TST1 = "high", hint-word = "low" }', ["a.py:1", "sub/b.py:1"]),
        ('per-file-impact = { "*.py" = "high", "sub/" = "low" }', ["a.py:1", "sub/b.py:1"]),
        ('per-rule-impact = { hint-word = "low" }\nper-file-impact = { "sub/" = "medium" }', ["a.py:1", "a.py:2"]),
    ],
)
def test_settings_say_what_is_shown(run: Any, files: Path, settings: str, shown: list[str]) -> None:
    (files / "gpulint.toml").write_text(settings + "\n")
    assert lines(run) == shown
    assert len(lines(run, "--impact", "low")) == 4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ('impact = "huge"', "gpulint.toml:1: 'impact' must be one of low, medium, high"),
        ('per-rule-impact = { TST999 = "low" }', "unknown rule or category 'TST999'"),
        ('per-file-impact = "low"', "gpulint.toml:1: 'per-file-impact' must be a table such as"),
    ],
)
def test_settings_that_mean_nothing_are_refused(run: Any, files: Path, settings: str, message: str) -> None:
    assert run("scan")[0] == 1
    (files / "gpulint.toml").write_text(settings + "\n")
    code, _, err = run("scan")
    assert code == 2
    assert message in err


def test_the_exit_code_follows_what_is_shown(run: Any, files: Path) -> None:
    assert run("scan", "sub")[:2] == (0, "No findings.\n1 low-impact finding hidden; --impact low shows it.\n")
    assert run("scan", "sub", "--impact", "low")[0] == 1


def test_machine_formats_say_on_standard_error_what_was_left_out(run: Any, files: Path) -> None:
    _, out, err = run("scan", "--output-format", "sarif", "--impact", "high")
    assert len(json.loads(out)["runs"][0]["results"]) == 1
    assert err == "3 low- and medium-impact findings hidden; --impact low shows them.\n"


def test_fix_and_add_ignores_leave_alone_what_is_hidden(run: Any, files: Path) -> None:
    code, out, _ = run("fix", "--apply", "--allow-no-vcs")
    assert code == 0
    assert "hidden; --impact low shows them." in out
    assert (files / "a.py").read_text() == "FIXED  # high\nFIXED  # medium\nWASTE  # low\n"
    run("scan", "--add-ignores")
    assert "ignore" not in (files / "a.py").read_text()
    run("fix", "--apply", "--allow-no-vcs", "--impact", "low")
    assert "WASTE" not in (files / "a.py").read_text()


def test_a_baseline_holds_every_impact(run: Any, files: Path) -> None:
    assert "4 findings" in run("baseline", "create")[1]
    assert lines(run, "--impact", "low") == []
    assert len(lines(run, "--impact", "low", "--no-baseline")) == 4


def test_one_cached_report_serves_every_impact(run: Any, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ("--cache-dir", "kept")
    assert len(lines(run, *options)) == 2

    def fail(*arguments: Any, **others: Any) -> Any:
        raise AssertionError("scanned again")

    monkeypatch.setattr(engine, "run", fail)
    assert len(lines(run, "--impact", "low", *options)) == 4
