"""The reports for pull requests: a comment in Markdown, and a badge."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("href", "src")]

    def handle_data(self, data: str) -> None:
        self.text += data


def _shown(markdown: str) -> _Page:
    page = _Page()
    page.feed(MarkdownIt("gfm-like", {"html": True, "linkify": False}).render(markdown))
    return page


def test_findings_and_what_is_hidden(run: Any, tree: Path) -> None:
    (tree / "a.py").write_text("one = 1\ntwo = WASTE\nthree = WASTE\n")
    code, out, _ = run("scan", "--output-format", "markdown")
    assert code == 1
    page = _shown(out)
    assert "gpulint: 2 findings" in page.text
    assert "a.py:2 and 1 more place" in page.text
    assert "TST101 the word WASTE. Fix: gpulint fix." in page.text
    assert page.links == ["https://gpulint.github.io/gpulint/rules/tst101-waste-word/"]


def test_new_and_fixed_since_a_baseline(run: Any, tree: Path) -> None:
    (tree / "a.py").write_text("one = WASTE\n")
    assert run("baseline", "create")[0] == 0
    (tree / "a.py").write_text("one = 1\n")
    (tree / "b.py").write_text("two = WASTE\n")
    page = _shown(run("scan", "--output-file", "report.md")[1] + (tree / "report.md").read_text())
    assert "gpulint: 1 new finding, 1 fixed" in page.text
    assert "b.py:1" in page.text
    assert "a.py: TST101" in page.text


def test_nothing_new(run: Any, tree: Path) -> None:
    (tree / "a.py").write_text("one = WASTE\n")
    assert run("baseline", "create")[0] == 0
    code, out, _ = run("scan", "--output-format", "markdown")
    assert (code, out) == (0, "<!-- gpulint -->\n\n### gpulint: no new findings\n")


def test_names_are_no_markup(run: Any, tree: Path) -> None:
    name = "![x](http_x)<img src=y>|`@team` #1 __a__.py"
    (tree / name).write_text("one = WASTE\n")
    page = _shown(run("scan", "--output-format", "markdown")[1])
    assert page.links == ["https://gpulint.github.io/gpulint/rules/tst101-waste-word/"]
    assert not {"img", "strong", "em"} & set(page.tags)
    assert f"{name}:1" in page.text.replace("\u200b", "")
    assert "@team" not in page.text


def test_badge(run: Any, tree: Path) -> None:
    def badge() -> tuple[str, str]:
        made = json.loads(run("scan", "--output-format", "badge", "--exit-zero")[1])
        assert made["schemaVersion"] == 1
        return made["message"], made["color"]

    (tree / "a.py").write_text("one = 1\n")
    assert badge() == ("no findings", "brightgreen")
    (tree / "a.py").write_text("one = WASTE\n")
    assert badge() == ("1 medium impact", "orange")
    (tree / "a.py").write_text("one = (\n")
    assert badge() == ("1 file unchecked", "grey")
