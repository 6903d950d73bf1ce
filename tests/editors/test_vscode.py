"""The VS Code extension: its manifest matches the server and the sources, and its own checks pass where npm is there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gpulint import __version__
from gpulint.lsp import settings
from gpulint.lsp.jobs import METHOD

FOLDER = Path(__file__).parents[2] / "editors" / "vscode"
MANIFEST: dict[str, Any] = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))
SOURCES = {path.name: path.read_text(encoding="utf-8") for path in (FOLDER / "src").glob("*.ts")}
OWN_SETTINGS = {"enable", "path", "interpreter", "fixAllOnSave", "trace.server"}


def test_it_knows_the_settings_of_the_server() -> None:
    declared = {key.removeprefix("gpulint.") for key in MANIFEST["contributes"]["configuration"]["properties"]}
    assert declared - OWN_SETTINGS == settings._OPTIONS.keys() | settings._SWITCHES.keys()
    keys = re.search(r"SERVER_KEYS = \[(.*?)\]", SOURCES["commands.ts"], re.DOTALL)
    assert keys is not None
    assert set(re.findall(r'"(\w+)"', keys.group(1))) == declared - OWN_SETTINGS


def test_every_command_is_declared_and_made() -> None:
    declared = {command["command"].removeprefix("gpulint.") for command in MANIFEST["contributes"]["commands"]}
    assert declared == set(re.findall(r'\bcommand\("(\w+)"', SOURCES["extension.ts"]))


def test_it_asks_for_the_jobs_as_the_server_offers_them() -> None:
    assert f'METHOD = "{METHOD}"' in SOURCES["jobsView.ts"]


def test_pages_of_the_walkthrough_exist() -> None:
    for walkthrough in MANIFEST["contributes"]["walkthroughs"]:
        for step in walkthrough["steps"]:
            assert (FOLDER / step["media"]["markdown"]).is_file()


def test_it_has_gpulint_s_version() -> None:
    assert MANIFEST["version"] == __version__


@pytest.mark.parametrize("script", ["check", "test"])
def test_its_own_checks(script: str) -> None:
    npm = shutil.which("npm")
    if npm is None or not (FOLDER / "node_modules").is_dir():
        pytest.skip("npm ci was not run in editors/vscode")
    done = subprocess.run([npm, "run", script], cwd=FOLDER, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
