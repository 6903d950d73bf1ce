"""The extension in a real VS Code: code-server in Chromium shows a finding, its fix, the hover text and the jobs.

``editors/vscode/test/run`` installs what is needed and runs these tests.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpulint import __version__
from tests.editors import code_server

sync_api = pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.skipif(bool(code_server.missing()), reason=code_server.missing())
EXAMPLES = Path(__file__).parents[2] / "examples"
LOADER = 48
"""The line of the loader in unpinned-loader/train.py."""
CUDNN = 55
"""The line that switches cuDNN off in debugging-left-on/train.py, which has no safe fix."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("workspace")
    for name in ("debugging-left-on", "half-the-gpus", "unpinned-loader"):
        shutil.copytree(EXAMPLES / name / "wasteful", folder / name)
    return folder


@pytest.fixture(scope="module")
def address(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with code_server.serving(folder, tmp_path_factory.mktemp("user"), {"gpulint.fixAllOnSave": True}) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[sync_api.Browser]:
    with sync_api.sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=code_server.BROWSER, args=["--no-sandbox"])


@pytest.fixture
def editor(browser: sync_api.Browser, address: str) -> Iterator[code_server.Editor]:
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    yield code_server.Editor(page, address)
    page.close()


def test_a_finding_has_a_squiggle_a_hover_and_fixes(editor: code_server.Editor) -> None:
    editor.open("unpinned-loader/train.py", LOADER, 25)
    text = editor.hover().inner_text()
    assert "GPU303 single-process-loading" in text
    assert "the GPU waits while the training process itself reads" in text
    editor.page.keyboard.press("Escape")
    titles = editor.quick_fixes().all_inner_texts()
    assert titles[0].startswith("GPU301: pin the loader's batches in host memory")
    assert titles[1].startswith("GPU303 (unsafe): load with workers")
    assert "GPU303: ignore this finding here" in titles
    assert editor.page.locator(".notification-list-item").count() == 0


def test_a_quick_fix_changes_the_text_and_saving_applies_the_safe_ones(
    editor: code_server.Editor, folder: Path
) -> None:
    program = folder / "debugging-left-on" / "train.py"
    before = program.read_text(encoding="utf-8")
    assert "set_detect_anomaly(True)" in before
    editor.open("debugging-left-on/train.py", CUDNN, 5)
    editor.choose("GPU414: ignore")
    editor.page.locator(".view-line", has_text="gpulint: ignore").wait_for()
    editor.page.locator(".tab.active.dirty").wait_for()
    assert program.read_text(encoding="utf-8") == before
    editor.page.keyboard.press("Control+S")
    editor.page.locator(".tab.active:not(.dirty)").wait_for()
    after = program.read_text(encoding="utf-8")
    assert "gpulint: ignore[GPU414]" in after
    assert "set_detect_anomaly(True)" not in after
    assert "cudnn.enabled = False" in after


def test_the_jobs_are_a_tree_that_leads_to_the_findings(editor: code_server.Editor) -> None:
    rows = editor.jobs()
    job, launcher, finding = (rows.nth(place).inner_text().replace("\n", " ") for place in range(3))
    assert job.startswith("train") and "8 GPUs, 5 findings" in job
    assert launcher.startswith("job.yaml") and "launcher, half-the-gpus" in launcher
    assert "8 GPUs requested at job.yaml:24, but 4 processes started" in finding
    rows.nth(2).click()
    editor.page.wait_for_selector('.tab.active[aria-label*="job.yaml"]')
    editor.page.locator(".statusbar-item", has_text="Ln 20").wait_for()


def test_the_status_bar_names_the_version_and_opens_the_log(editor: code_server.Editor) -> None:
    editor.open("unpinned-loader/train.py", LOADER, 25)
    assert f"gpulint {__version__}, from: setting gpulint.path" in (editor.status().get_attribute("aria-label") or "")
    editor.status().click()
    editor.page.locator(".output-view .view-line", has_text=f": {__version__}").first.wait_for()
    editor.run("gpulint: Restart Server")
    editor.status().wait_for()
    editor.run("gpulint: Get Started")
    editor.page.locator(
        ".getting-started-category, .gettingStartedContainer", has_text="Install gpulint"
    ).first.wait_for()
