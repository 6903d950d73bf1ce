"""Errors rest on code that runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpulint import engine
from gpulint.config import Config
from gpulint.documents import Document
from gpulint.finding import Finding, Place
from gpulint.project import Project
from gpulint.source import Span
from tests.engine.conftest import BOOM

SHELL = """\
#!/bin/bash
#SBATCH --gres=gpu:4
if [ "$MODE" = cpu ]; then
    pip install torch
fi
# python old.py
python train.py
"""
PYTHON = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--debug", action="store_true")
args = parser.parse_args()
if args.debug:
    device = "cpu"
device = "cuda"  # device = "cpu"
"""


def severity(folder: Path, name: str, text: str, span: Span, related: Span | None = None) -> str:
    """The severity of an error that is reported at a place and rests on another."""

    def check(document: Document, project: Project) -> Iterator[Finding]:
        places = (Place(document.path, related),) if related is not None else ()
        yield BOOM.finding(document.path, span, "an error", related=places)

    path = folder / name
    path.write_text(text)
    project = Project(folder, [path], Config(base=folder))
    report = engine.run(project, [path], [replace(BOOM, check=check)])
    assert not report.errors
    (result,) = report.results
    return str(result.finding.severity)


@pytest.mark.parametrize(
    ("line", "expected"),
    [(2, "error"), (4, "warning"), (6, "warning"), (7, "error")],
    ids=["directive", "under a condition", "comment", "command"],
)
def test_in_scripts(tmp_path: Path, line: int, expected: str) -> None:
    column = 5 if line == 4 else 3 if line == 6 else 1
    assert severity(tmp_path, "job.sh", SHELL, Span(line, column, line, column + 5)) == expected


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        (Span(6, 5, 6, 19), "warning"),
        (Span(7, 1, 7, 16), "error"),
        (Span(7, 21, 7, 35), "warning"),
    ],
    ids=["off by default", "code", "comment"],
)
def test_in_programs(tmp_path: Path, span: Span, expected: str) -> None:
    assert severity(tmp_path, "train.py", PYTHON, span) == expected


def test_what_an_error_rests_on_counts_as_well(tmp_path: Path) -> None:
    here = Span(7, 1, 7, 16)
    assert severity(tmp_path, "train.py", PYTHON, here, Span(4, 1, 4, 27)) == "error"
    assert severity(tmp_path, "train.py", PYTHON, here, Span(6, 5, 6, 19)) == "warning"
