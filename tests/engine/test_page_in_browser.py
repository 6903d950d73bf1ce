"""The HTML report in a real browser: filters, keyboard and narrow windows work, and nothing is loaded or run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


def test_the_page_works_in_a_browser(run: Any, tree: Path) -> None:
    (tree / "a.py").write_text("WASTE\nx = HINT\n")
    (tree / "sub").mkdir()
    (tree / "sub" / "<img src=x onerror=alert(1)>.py").write_text("BOOM  # <script>alert(1)</script>\n")
    run("scan", "--output-file", "report.html")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 390, "height": 800}, color_scheme="dark")
        complaints: list[str] = []
        requests: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.on("request", lambda request: requests.append(request.url))
        page.goto((tree / "report.html").as_uri())
        shown = page.locator("details.finding:visible")
        assert shown.count() == 3
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.fill("[name=path]", "sub/")
        assert shown.count() == 1
        assert "1 of 3 entries shown" in page.locator("output").inner_text()
        assert page.locator("section.group:visible").count() == 1
        page.click("#close")
        summary = page.locator("details.finding:visible summary")
        summary.focus()
        page.keyboard.press("Enter")
        assert page.locator("details[open]").count() == 1
        browser.close()
    assert complaints == []
    assert len(requests) == 1
