"""The cache gives what a fresh scan gives, or nothing; it never breaks one."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from gpulint import engine
from gpulint.cache.location import OLD_NAME as NAME
from gpulint.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"
FORMATS = ("full", "concise", "json", "sarif", "github", "gitlab", "junit", "rdjson")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tree"
    folder.mkdir()
    (folder / "pyproject.toml").write_text("[tool.gpulint]\n")
    for job in ("half-the-gpus", "one-gpu-of-two", "notebook", "unpinned-loader"):
        shutil.copytree(EXAMPLES / job / "wasteful", folder / job)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def scan(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    runs = []
    real = engine.run
    monkeypatch.setattr(engine, "run", lambda *args, **more: (runs.append(1), real(*args, **more))[1])

    def call(*options: str) -> tuple[int, str, str]:
        code = main(["scan", *options])
        return code, *capsys.readouterr()

    call.runs = runs  # type: ignore[attr-defined]
    return call


@pytest.mark.parametrize("name", FORMATS)
def test_a_kept_report_reads_the_same_in_every_format(tree: Path, scan: Any, name: str) -> None:
    options = ("--output-format", name, "--select", "ALL", "--show-notes", "--report-unused-ignores", "--statistics")
    fresh = scan(*options, "--no-cache")
    assert "GPU301" in fresh[1]
    assert scan(*options) == fresh
    before = len(scan.runs)
    assert scan(*options) == fresh
    assert len(scan.runs) == before, "nothing was scanned again"


def _edit(path: Path, others: list[str], chance: random.Random) -> None:
    lines = path.read_text().splitlines(keepends=True)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(lines) + 1)
        if chance.random() < 0.5:
            lines[at : at + 1] = []
        else:
            lines.insert(at, chance.choice(chance.choice(others).splitlines(keepends=True) or ["\n"]))
    path.write_text("".join(lines))


@pytest.mark.parametrize("seed", range(3))
def test_random_edits_give_what_a_fresh_scan_gives(tree: Path, scan: Any, seed: int) -> None:
    chance = random.Random(seed)
    others = [path.read_text() for path in sorted(tree.rglob("*")) if path.is_file()]
    past: list[tuple[Path, str]] = []
    for _ in range(10):
        files = sorted(path for path in tree.rglob("*") if path.is_file() and NAME not in path.parts)
        path = chance.choice([path for path in files if path.suffix != ".toml"])
        past.append((path, path.read_text()))
        move = chance.random()
        if move < 0.6:
            _edit(path, others, chance)
        elif move < 0.7 and len(files) > 6:
            path.unlink()
        elif move < 0.8:
            path.rename(path.with_name(f"moved_{path.name}"))
        else:  # back to what was scanned before
            old, text = chance.choice(past)
            old.write_text(text)
        options = ("--output-format", "json", "--select", "ALL")
        assert scan(*options) == scan(*options, "--no-cache")


def test_what_the_disk_said_besides_the_files_counts(tree: Path, scan: Any) -> None:
    """A folder of a model's name means that the model is not fetched, though no file that is scanned has changed."""
    (tree / "train.py").write_text(
        "import torch\nfrom transformers import AutoModel\n"
        'model = AutoModel.from_pretrained("someone/large-model").cuda()\nmodel.eval()\nloss = model(1)\nloss.backward()\n'
    )
    (tree / ".gitignore").write_text("someone\n")
    options = ("--output-format", "concise", "--select", "GPU331")
    assert "someone/large-model" in scan(*options)[1]
    assert "someone/large-model" in scan(*options)[1]
    (tree / "someone" / "large-model").mkdir(parents=True)
    assert "someone/large-model" not in scan(*options)[1]


def test_settings_options_and_rules_have_entries_of_their_own(tree: Path, scan: Any) -> None:
    everything = scan("--output-format", "concise", "--select", "ALL")[1]
    assert scan("--output-format", "concise", "--select", "GPU301")[1] != everything
    (tree / "pyproject.toml").write_text('[tool.gpulint]\nignore = ["GPU3"]\n')
    assert "GPU301" not in scan("--output-format", "concise")[1]


def test_broken_entries_are_as_good_as_none(tree: Path, scan: Any) -> None:
    fresh = scan()
    for entry in (tree / NAME).glob("*.json"):
        whole = entry.read_text()
        for text in ("", "{", "null", "[]", whole[: len(whole) // 2], json.dumps({"asked": {"data": {"x": 1}}})):
            entry.write_text(text)
            assert scan() == fresh


def test_the_folder_is_marked_as_a_cache_and_stays_small(tree: Path, scan: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("gpulint.cache.MAX_ENTRIES", 3)
    cache = tree / NAME
    for number in range(5):
        (tree / "a.py").write_text(f"x = {number}\n")
        scan()
        os.utime(max(cache.glob("*.json"), key=lambda path: path.stat().st_mtime_ns), (time.time(), number + 1))
    assert len(list(cache.glob("*.json"))) <= 4
    assert (cache / ".gitignore").read_text() == "*\n"
    assert (cache / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55")


def test_outside_of_projects_nothing_is_kept(tree: Path, scan: Any) -> None:
    (tree / "pyproject.toml").unlink()
    scan()
    assert not (tree / NAME).exists()


def test_a_folder_that_cannot_be_made_is_no_trouble(tree: Path, scan: Any) -> None:
    (tree / NAME).write_text("a file")
    assert scan()[0] == 1
    assert scan("--cache-dir", str(tree / "no" / "such" / "folder"))[0] == 1


def test_clean(tree: Path, scan: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clean"]) == 0
    scan()
    assert main(["clean"]) == 0
    assert not (tree / NAME).exists()
    (tree / NAME).mkdir()
    assert main(["clean"]) == 2, "a folder of that name that gpulint did not make is left alone"
    assert "not a cache" in capsys.readouterr().err
