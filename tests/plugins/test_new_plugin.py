"""``gpulint plugin new``: the package installs, passes its own tests and finds something, as generated."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpulint.cli import main

PIP = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def python(folder: Path, *arguments: str, extra: Path | None = None) -> subprocess.CompletedProcess[str]:
    search = [str(path) for path in (extra,) if path] + [path for path in sys.path if path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(search), "NO_COLOR": "1"}
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


def test_it_passes_its_tests_and_finds_something(folder: Path) -> None:
    assert main(["plugin", "new", "my-lab2"]) == 0
    made, packages = folder / "gpulint-my-lab2", folder / "packages"
    installed = python(folder, "pip", "install", *PIP, "--target", str(packages), str(made))
    assert installed.returncode == 0, installed.stderr
    tests = python(made, "pytest", "-q", "-p", "no:cacheprovider", extra=packages)
    assert tests.returncode == 0, tests.stdout
    assert "4 passed" in tests.stdout
    arguments = ["scan", "job", "--select", "MYLAB", "--output-format", "concise", "--no-cache"]
    found = python(made, "gpulint", *arguments, extra=packages)
    assert (found.returncode, found.stderr) == (1, "")
    assert found.stdout.startswith("job/train.py:7:10: ")
    assert "MYLAB101" in found.stdout
    report = python(made, "gpulint", *arguments[:-2], "json", "--no-cache", extra=packages)
    assert '"category": "Storage"' in report.stdout
    assert "study" not in report.stdout
    chosen = python(made, "gpulint", "scan", "job", "--select", "storage", "--no-cache", extra=packages)
    assert "MYLAB101" in chosen.stdout


def test_next_to_another_package(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "plugins").mkdir()
    assert main(["plugin", "new", "gpulint-acme", "--prefix", "ACM", "--folder", "plugins"]) == 0
    assert "cd plugins/gpulint-acme" in capsys.readouterr().out
    assert [path.name for path in (folder / "plugins").iterdir()] == ["gpulint-acme"]
    assert (folder / "plugins" / "gpulint-acme" / "tests" / "acm101_data_in_home.md").is_file()


def test_nothing_is_overwritten(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "gpulint-acme").symlink_to("nowhere")
    assert main(["plugin", "new", "acme"]) == 2
    assert capsys.readouterr().err == "gpulint: error: gpulint-acme already exists; nothing was written\n"
    assert [path.name for path in folder.iterdir()] == ["gpulint-acme"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["Acme"], "did you mean 'acme'?"),
        (["my lab"], "did you mean 'my-lab'?"),
        (["42"], "start with a letter"),
        (["plugins/acme"], "--folder"),
        (["rules"], "choose another name"),
        (["x"], "--prefix"),
        (["gpu"], "reserved"),
        (["a" * 41], "at most 40"),
        (["acme", "--prefix", "acme"], "capital letters"),
        (["acme", "--folder", "nowhere"], "nowhere: no such folder"),
    ],
)
def test_what_is_refused(folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    assert main(["plugin", "new", *arguments]) == 2
    err = capsys.readouterr().err
    assert err.startswith("gpulint: error: ")
    assert err.count("\n") == 1
    assert said in err
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder.chmod(0o500)
    try:
        assert main(["plugin", "new", "acme"]) == 2
    finally:
        folder.chmod(0o700)
    assert "could not be written" in capsys.readouterr().err
