"""``gpulint config show``: what applies, and where it comes from."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from gpulint.cli import main
from gpulint.settings import SETTINGS


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shown(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert main(("config", "show", "--output-format", "json", *options)) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_every_key_says_where_it_comes_from(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "pyproject.toml").write_text(
        '[tool.gpulint]\n\nignore = ["GPU301"]\ngpus-per-node = 8\nselect = ["data"]\n'
    )
    found = shown(capsys, "--ignore", "GPU302", "--severity", "warning")
    assert found["file"] == "pyproject.toml"
    settings = found["settings"]
    assert list(settings) == list(SETTINGS)
    assert settings["gpus-per-node"] == {"value": 8, "source": "pyproject.toml:4"}
    assert settings["ignore"] == {"value": ["GPU301", "GPU302"], "source": "pyproject.toml:3, command line"}
    assert settings["severity"] == {"value": "warning", "source": "command line"}
    assert settings["remote-paths"] == {"value": [], "source": "default"}
    assert settings["exclude"]["value"] is None
    assert settings["exclude"]["source"].startswith("default: folders of tools")


def test_select_on_the_command_line_starts_afresh(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "gpulint.toml").write_text('ignore = ["GPU301"]\nselect = ["data"]\n')
    settings = shown(capsys, "--select", "GPU1")["settings"]
    assert settings["select"] == {"value": ["GPU1"], "source": "command line"}
    assert settings["ignore"] == {"value": [], "source": "command line: --select replaces it"}


def test_the_text_is_toml_that_means_the_same(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = 'select = ["data"]\nper-file-ignores = { "tools/*" = ["ALL"] }\nremote-paths = ["/blob \\"x\\"/é"]\n'
    text += 'checkpoint-times = { "a.py" = { mtbf-hours = 200, checkpoint-seconds = 45, step-seconds = 0.5 } }\n'
    (tree / "gpulint.toml").write_text(text, encoding="utf-8")
    assert main(("config", "show")) == 0
    out = capsys.readouterr().out
    assert tomllib.loads(text).items() <= tomllib.loads(out).items()
    assert out.startswith("# gpulint.toml\n")
    assert "# gpulint.toml:2" in out


def test_settings_are_those_of_the_paths(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "job").mkdir()
    (tree / "job" / "gpulint.toml").write_text("gpus-per-node = 4\n")
    assert shown(capsys)["file"] is None
    assert shown(capsys, "job")["settings"]["gpus-per-node"] == {"value": 4, "source": "job/gpulint.toml:1"}
    assert shown(capsys, "--stdin-filename", "job/new.py")["file"] == "job/gpulint.toml"
    assert shown(capsys, "job", "--isolated")["settings"]["gpus-per-node"]["value"] is None


def test_mistakes_are_those_of_a_scan(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "gpulint.toml").write_text("gpus-per-nod = 4\n")
    assert main(("config", "show")) == 2
    assert "gpulint.toml:1: unknown setting 'gpus-per-nod'; did you mean 'gpus-per-node'?" in capsys.readouterr().err
    (tree / "gpulint.toml").write_text('select = ["GPU999"]\n')
    assert main(("config", "show")) == 2
    assert "unknown rule or category 'GPU999'" in capsys.readouterr().err
