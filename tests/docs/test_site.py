"""The documentation site: it builds without a broken link, and findings link to pages that it has."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from gpulint import plugins
from gpulint.suppress import UNUSED_IGNORE

ROOT = Path(__file__).parent.parent.parent
CONFIG: dict[str, Any] = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    if importlib.util.find_spec("zensical") is None:
        pytest.skip("zensical is not installed")
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def menu(entries: list[Any]) -> list[str]:
    """The pages of the menu and of the menus in it."""
    found: list[str] = []
    for entry in entries:
        for below in [entry] if isinstance(entry, str) else entry.values():
            found += [below] if isinstance(below, str) else menu(below)
    return found


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    shutil.copy(ROOT / "zensical.toml", folder)
    shutil.copytree(ROOT / "docs", folder / "docs")
    return folder


def test_it_builds_without_broken_links_and_has_every_rule_s_page(source: Path) -> None:
    done = build(source)
    assert done.returncode == 0, done.stdout + done.stderr
    for rule in [*plugins.load().rules, UNUSED_IGNORE]:
        assert rule.url.startswith(CONFIG["site_url"])
        page = source / "site" / rule.url.removeprefix(CONFIG["site_url"]) / "index.html"
        assert rule.code in page.read_text(encoding="utf-8")


def test_a_broken_link_fails_the_build(source: Path, tmp_path: Path) -> None:
    shutil.copytree(source / "docs", tmp_path / "docs")
    shutil.copy(source / "zensical.toml", tmp_path)
    with (tmp_path / "docs" / "ci.md").open("a", encoding="utf-8") as page:
        page.write("\n[gone](rules/gpu999-gone.md)\n")
    assert build(tmp_path).returncode != 0


def test_every_page_can_be_reached_from_the_menu() -> None:
    listed = menu(CONFIG["nav"])
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    index = (ROOT / "docs" / "rules" / "index.md").read_text(encoding="utf-8")
    moved = {f"rules/{rule.code.lower()}-{name}.md" for rule in plugins.load().rules for name in rule.former_names}
    for page in pages:
        assert page in moved or page in listed or f"({Path(page).name})" in index, f"{page}: not in zensical.toml"
    assert set(listed) <= set(pages)
