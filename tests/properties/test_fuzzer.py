"""The fuzzer itself: some hundred inputs end without a failure, and a rule that fails is found and its input shrunk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="limits memory by what Linux says of it")

FUZZ = Path(__file__).parents[2] / "benchmarks" / "fuzz.py"
PLANTED = """\
import time
from gpulint.hooks import hookimpl
from gpulint.rule import Category, Dimension, Kind, Rule, Severity

def check(document, project):
    if "no_grad" in document.source.text:
        {body}
    return iter(())

@hookimpl
def gpulint_rules():
    return [Rule(
        code="BAD101", name="planted", category=Category.API_MISUSE, dimension=Dimension.LIBRARY,
        severity=Severity.INFO, kinds=frozenset({{Kind.PYTHON}}), summary="fails", why="It is a test.", evidence=(),
        check=check, docs_url="https://example.org",
    )]
"""
PRINTED = """\
import sys
sys.path.insert(0, sys.argv[1])
from fuzzing.corpus import corpus
from fuzzing.mutations import Mutator
mutator = Mutator(corpus(), 5)
print([(sorted(item.files.items()), item.mutations) for item in map(mutator.input, range(40))])
"""
WINDOW = """\
import sys
sys.path.insert(0, sys.argv[1])
from fuzzing.corpus import corpus
from fuzzing.mutations import Mutator
mutator = Mutator(corpus(), 3)
def evaluates(number):
    files = mutator.input(number).files.items()
    return any(name.endswith(b".py") and b"test" not in name and b"no_grad" in data for name, data in files)
evaluating = [evaluates(number) for number in range(1000)]
print(next(at for at in range(995) if sum(evaluating[at : at + 5]) == 1))
"""
"""Prints the first of five inputs of which one evaluates a model, in no file of tests: specs change, and with them all
inputs."""


@pytest.fixture(scope="module")
def window() -> list[str]:
    """Options for five inputs of which one evaluates a model."""
    command = [sys.executable, "-c", WINDOW, str(FUZZ.parent)]
    start = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return ["--seed", "3", "--start", start, "--count", "5"]


def fuzz(*words: str, plugins: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | ({"PYTHONPATH": str(plugins)} if plugins is not None else {})
    command = [sys.executable, FUZZ, "mutate", "--processes", "1", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def plant(folder: Path, body: str) -> Path:
    """An installed plugin whose rule runs ``body`` where a program evaluates."""
    (folder / "planted.py").write_text(PLANTED.format(body=body))
    metadata = folder / "planted-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: planted\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[gpulint]\nplanted = planted\n")
    return folder


def small(output: Path) -> list[bytes]:
    """Contents of the files that the only failure was brought down to."""
    (failure,) = output.iterdir()
    return [path.read_bytes() for path in failure.glob("small/*/*")]


def test_some_hundred_inputs_end_without_a_failure(tmp_path: Path) -> None:
    done = fuzz("--count", "300", "--seed", "3", "--output", str(tmp_path / "failures"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| all | 300 | 0 | 0 | 0 | 0 | 0 | 0 |" in done.stdout
    assert not (tmp_path / "failures").exists()


def test_a_rule_that_raises_is_found_and_its_input_shrunk(tmp_path: Path, window: list[str]) -> None:
    plugins = plant(tmp_path, "1 / 0")
    done = fuzz(*window, "--output", str(tmp_path / "failures"), plugins=plugins)
    assert done.returncode == 1, done.stderr
    assert small(tmp_path / "failures") == [b"no_grad"]
    (report,) = (tmp_path / "failures").glob("*/failure.txt")
    assert "ZeroDivisionError" in report.read_text()


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("while True: time.process_time()", "time"),
        ("import os; os.kill(os.getpid(), 11)", "exception"),
        ("kept = b'x' * 300_000_000", "memory"),
    ],
)
def test_what_a_process_does_not_survive_is_brought_down_to_one_input(
    tmp_path: Path, window: list[str], body: str, kind: str
) -> None:
    plugins, output = plant(tmp_path, body), tmp_path / "failures"
    seconds = "1" if kind == "time" else "30"  # a busy machine may need more than one for a plain scan
    done = fuzz(*window, "--seconds", seconds, "--megabytes", "150", "--output", str(output), plugins=plugins)
    assert done.returncode == 1, done.stderr
    (report,) = output.glob("*/failure.txt")
    assert f"kind: {kind}\n" in report.read_text()
    assert report.read_text().count("\nagain: ") == 1


def test_inputs_depend_on_the_seed_alone() -> None:
    command = [sys.executable, "-c", PRINTED, str(FUZZ.parent)]
    texts = {
        subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, check=True).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1
