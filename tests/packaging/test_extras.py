"""What to install where a package of an extra is missing: in one style, whatever gpulint was installed from."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

import pytest

from gpulint.cli import main
from gpulint.extras import missing


@pytest.mark.parametrize(
    ("arguments", "package", "also"),
    [(["probe", "--", "true"], "psutil", "nvidia-ml-py"), (["estimate", "a.py:build"], "torch", "torch")],
)
def test_the_packages_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], package: str, also: str
) -> None:
    required = ["rich>=14.0", "torch>=2.4; extra == 'estimate'"]
    required += ["nvidia-ml-py>=12.535; extra == 'probe'", 'psutil>=6.0; extra == "probe"']
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: required)
    monkeypatch.setitem(sys.modules, package, None)
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"gpulint: error: gpulint {arguments[0]} needs {package}, which is not installed; run: pip")
    assert f"'{also}>=" in err and err.count("\n") == 1


def test_a_recording_is_reported_without_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    assert main(["probe", "report", str(tmp_path / "no.jsonl")]) == 2
    assert "no.jsonl: No such file" in capsys.readouterr().err


def test_without_metadata_the_package_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", raises)
    assert missing("x", "psutil", "probe") == "x needs psutil, which is not installed; run: pip install psutil"
