"""The examples of the page on models are complete: with the row, gpulint reports what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpulint.cli import main

PAGE = Path(__file__).resolve().parents[2] / "docs" / "models.md"
_SECTION = re.compile(r"^## (Teach .*)\n((?:(?!## ).*\n)*)", re.MULTILINE)
_BLOCK = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
SECTIONS = {title: dict(_BLOCK.findall(text)) for title, text in _SECTION.findall(PAGE.read_text())}


@pytest.mark.parametrize("title", SECTIONS)
def test_the_example_reports_what_the_page_says(
    title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = dict(SECTIONS[title])
    expected = files.pop("output")
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    assert main(["scan", "--impact", "low", "--output-format", "concise"]) == 1
    lines = expected.strip().splitlines()
    # Of what a finding costs the page says nothing.
    shown = re.sub(r", \w+ impact\)$", ")", capsys.readouterr().out.strip(), flags=re.MULTILINE).splitlines()
    assert shown[: len(lines)] == lines
    (tmp_path / "gpulint.toml").unlink()
    assert main(["scan", "--impact", "low", "--output-format", "concise"]) == 0


def test_every_section_has_an_example() -> None:
    assert all({"gpulint.toml", "output"} <= set(files) for files in SECTIONS.values())
    assert SECTIONS
