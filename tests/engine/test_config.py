"""Settings files: where they are found, what they do, and how mistakes in them are reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpulint.config import Config, ConfigError, load
from gpulint.finding import Severity


def codes(run: Any, *options: str) -> list[str]:
    return [found["code"] for found in json.loads(run("scan", "--output-format", "json", *options)[1])]


def test_all_keys(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        """
        [tool.gpulint]
        select = ["GPU3"]
        ignore = ["GPU301"]
        extend-select = ["GPU101"]
        exclude = ["a"]
        extend-exclude = ["b"]
        remote-paths = ["/mnt/blob"]
        gpus-per-node = 8
        severity = "warning"
        checkpoint-times = { "a.py" = { step-seconds = 0.5, checkpoint-seconds = 45, mtbf-hours = 200 } }
        [tool.gpulint.per-file-ignores]
        "tests/*" = ["ALL"]
        """
    )
    assert load(tmp_path) == Config(
        select=("GPU3",),
        ignore=("GPU301",),
        extend_select=("GPU101",),
        per_file_ignores={"tests/*": ("ALL",)},
        exclude=("a",),
        extend_exclude=("b",),
        remote_paths=("/mnt/blob",),
        gpus_per_node=8,
        severity=Severity.WARNING,
        checkpoint_times={"a.py": {"mtbf-hours": 200, "checkpoint-seconds": 45, "step-seconds": 0.5}},
        base=tmp_path,
        source=tmp_path / "pyproject.toml",
    )


def test_nearest_file_counts_up_to_the_repository(tmp_path: Path) -> None:
    inner = tmp_path / "repo" / "package"
    inner.mkdir(parents=True)
    (tmp_path / "gpulint.toml").write_text('select = ["GPU1"]')
    (inner / "pyproject.toml").write_text('[project]\nname = "x"\n')
    assert load(inner).select == ("GPU1",)
    (tmp_path / "repo" / ".git").mkdir()
    assert load(inner).select is None
    (tmp_path / "repo" / "pyproject.toml").write_text('[tool.gpulint]\nselect = ["GPU2"]')
    assert load(inner).select == ("GPU2",)
    (tmp_path / "repo" / "gpulint.toml").write_text('select = ["GPU3"]')
    assert load(inner).select == ("GPU3",)
    assert load(inner, isolated=True).select is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('\nselct = ["GPU1"]\n', "gpulint.toml:2: unknown setting 'selct'; did you mean 'select'?"),
        ('select = "GPU1"\n', "gpulint.toml:1: 'select' must be a list of strings"),
        ("gpus-per-node = -1\n", "gpulint.toml:1: 'gpus-per-node' must be a whole number from 0 to 10,000"),
        ("gpus-per-node = 10001\n", "gpulint.toml:1: 'gpus-per-node' must be a whole number from 0 to 10,000"),
        ("gpus-per-node = true\n", "gpulint.toml:1: 'gpus-per-node' must be a whole number from 0 to 10,000"),
        ('severity = "bad"\n', "gpulint.toml:1: 'severity' must be one of info, warning, error"),
        ("[per-file-ignores]\na = 1\n", "gpulint.toml:1: 'per-file-ignores' must be a list of strings"),
        (
            'checkpoint-times = { "a.py" = { mtbf-hours = 9 } }',
            "gpulint.toml:1: 'checkpoint-times' must have mtbf-hours, checkpoint-seconds, step-seconds for each pattern",
        ),
        (
            '[checkpoint-times]\n"a.py" = { mtbf-hours = 9, checkpoint-seconds = 0, step-seconds = 1 }',
            "gpulint.toml:1: 'checkpoint-times' must have positive numbers",
        ),
        ("select = [\n", "gpulint.toml: not valid TOML"),
    ],
)
def test_mistakes_name_file_line_and_key(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "gpulint.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path)
    assert str(caught.value).startswith(f"{tmp_path}/{message}")


def test_a_broken_project_file_that_does_not_mention_gpulint_is_passed_over(run: Any, tree: Path) -> None:
    (tree / "a.py").write_text("WASTE\n")
    (tree / "pyproject.toml").write_text("[project]\nname = 'a\n")
    code, out, err = run("scan", "--output-format", "concise")
    assert code == 1
    assert "a.py:1:1: TST101" in out
    assert "pyproject.toml:2:10: warning: not valid TOML: " in err
    (tree / "pyproject.toml").write_text("[project]\nname = '''a")
    _, out, err = run("scan", "--output-format", "concise")
    assert "a.py:1:1: TST101" in out
    assert "pyproject.toml:2:12: warning: not valid TOML" in err


def test_a_broken_project_file_that_mentions_gpulint_is_misuse(run: Any, tree: Path) -> None:
    (tree / "pyproject.toml").write_text("[project]\nname = 'a\n[tool.gpulint]\nignore = ['TST101']\n")
    code, out, err = run("scan")
    assert (code, out) == (2, "")
    assert "pyproject.toml: not valid TOML" in err


def test_bad_settings_are_misuse(run: Any, tree: Path) -> None:
    (tree / "gpulint.toml").write_text('select = ["no-such-rule"]')
    code, out, err = run("scan")
    assert (code, out) == (2, "")
    assert f"{tree}/gpulint.toml: unknown rule or category 'no-such-rule'" in err
    code, out, err = run("scan", "--config", "nowhere.toml")
    assert (code, out) == (2, "")
    assert "nowhere.toml: no such configuration file" in err


def test_command_line_lies_over_the_file(run: Any, tree: Path) -> None:
    (tree / "a.py").write_text("WASTE = HINT = HIDDEN\n")
    (tree / "gpulint.toml").write_text('select = ["TST3"]\nignore = ["TST102"]\nseverity = "warning"\n')
    assert codes(run, "--severity", "info") == ["TST101", "TST102"]
    assert codes(run) == ["TST101"]
    assert codes(run, "--ignore", "waste-word") == []
    assert codes(run, "--isolated") == ["TST101", "TST102"]
