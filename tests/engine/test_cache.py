"""The cache gives what a fresh scan gives, or nothing; it never breaks one."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpulint import engine
from gpulint.cli import main
from gpulint.workspace.files import Files

EXAMPLES = Path(__file__).parents[2] / "examples"
SIGNATURE = "Signature: 8a477f597d28d172789f06886806bc55"
FORMATS = ("full", "concise", "json", "sarif", "github", "gitlab", "junit", "rdjson")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("GPULINT_CACHE_DIR", str(folder))
    return folder


@pytest.fixture
def tree(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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


_WAITS = """\
from torch.utils.data import DataLoader

loader = DataLoader(data, pin_memory=True)
total = correct = hits = most = sums = 0
for images, labels in loader:
    output = model(images.cuda(non_blocking=True))
    loss = criterion(output, labels.cuda(non_blocking=True))
    loss.backward()
    optimizer.step()
    total += loss.item()
    correct += (output.argmax(1) == labels.cuda(non_blocking=True)).sum().item()
    hits += (output > 0).sum().item()
    most += output.max().item()
    sums += output.sum().item()
print(total, correct, hits, most, sums)
"""


@pytest.mark.parametrize("name", ["full", "json"])
def test_a_kept_report_folds_findings_of_one_repair_as_a_fresh_one_does(tree: Path, scan: Any, name: str) -> None:
    (tree / "waits.py").write_text(_WAITS)
    (tree / "waits.sh").write_text("python waits.py\n")
    options = ("--output-format", name, "waits.py")
    fresh = scan(*options)
    runs = len(scan.runs)
    assert "low-impact" in "".join(fresh[1:])
    assert "also lines" in fresh[1]
    assert scan(*options) == fresh
    assert len(scan.runs) == runs, "nothing was scanned again"


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
        files = sorted(path for path in tree.rglob("*") if path.is_file())
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


def entries(cache: Path) -> list[Path]:
    return sorted(cache.glob("*.json"))


def change(tree: Path, number: int) -> None:
    (tree / "a.py").write_text(f"x = {number}\n")


def test_the_folder_is_marked_as_a_cache_and_keeps_the_newest_of_each_project(
    tree: Path, cache: Path, scan: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr("gpulint.cache.folder.MAX_ENTRIES_OF_PROJECT", 3)
    other = tree.parent / "other"
    other.mkdir()
    (other / "train.py").write_text("import torch\n")
    scan(str(other))
    (of_other,) = entries(cache)
    os.utime(of_other, (0, 0))
    for number in range(5):
        change(tree, number)
        scan()
        newest = max(set(entries(cache)) - {of_other}, key=lambda path: path.stat().st_mtime_ns)
        os.utime(newest, (number + 1, number + 1))
    assert of_other in entries(cache), "a project displaces its own entries only"
    assert sorted(path.stat().st_mtime for path in entries(cache) if path != of_other) == [3, 4, 5]
    assert (cache / ".gitignore").read_text() == "*\n"
    assert (cache / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55")


@pytest.mark.parametrize(("limit", "value"), [("MAX_ENTRIES", 2), ("MAX_TOTAL_BYTES", 1)])
def test_all_projects_together_have_a_limit(
    tree: Path, cache: Path, scan: Any, monkeypatch: Any, limit: str, value: int
) -> None:
    scan()
    if limit == "MAX_TOTAL_BYTES":
        value = 2 * entries(cache)[0].stat().st_size + 1000
    monkeypatch.setattr(f"gpulint.cache.folder.{limit}", value)
    for number in range(4):
        (tree / str(number)).mkdir()
        (tree / str(number) / "gpulint.toml").touch()
        shutil.copytree(tree / "half-the-gpus", tree / str(number) / "job")
        scan(str(tree / str(number)))
    assert 1 <= len(entries(cache)) <= 5
    assert len(entries(cache)) == 2 or limit == "MAX_TOTAL_BYTES"
    assert sum(path.stat().st_size for path in entries(cache)) <= (value if limit == "MAX_TOTAL_BYTES" else 10**9)


def test_a_script_outside_of_projects_is_kept_too(tree: Path, cache: Path, scan: Any) -> None:
    (tree / "pyproject.toml").unlink()
    assert scan() == scan()
    assert len(scan.runs) == 1


def test_where_the_cache_is(tree: Path, cache: Path, scan: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The option counts before the variable, that before the setting, and that before the user's own folder."""
    home, named = tree.parent / "xdg", tree.parent / "named" / "deep"
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    home.mkdir()
    (tree / ".cache").mkdir()
    (tree / "pyproject.toml").write_text('[tool.gpulint]\ncache-dir = ".cache/gpulint"\n')
    places = [named, cache, tree / ".cache" / "gpulint", home / "gpulint"]

    def used() -> list[bool]:
        return [bool(entries(place)) for place in places]

    scan("--cache-dir", str(named))
    assert used() == [True, False, False, False]
    scan()
    assert used() == [True, True, False, False]
    monkeypatch.delenv("GPULINT_CACHE_DIR")
    scan()
    assert used() == [True, True, True, False]
    assert (home / "gpulint" / "key").exists(), "the key is never in the tree"
    assert not (tree / ".cache" / "gpulint" / "key").exists()
    scan("--isolated")
    assert used() == [True, True, True, True]
    assert not (tree / ".gpulint_cache").exists()
    runs = len(scan.runs)
    scan("--cache-dir", str(named)), scan(), scan("--isolated")
    assert len(scan.runs) == runs, "each is used as well"


def test_keeping_the_folder_keeps_the_cache(tree: Path, cache: Path, scan: Any, monkeypatch: Any) -> None:
    fresh = scan()
    cache.rename(tree.parent / "restored")
    monkeypatch.setenv("GPULINT_CACHE_DIR", str(tree.parent / "restored"))
    assert scan() == fresh
    assert len(scan.runs) == 1


def test_the_effective_folder_is_shown(
    tree: Path, cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "pyproject.toml").write_text('[tool.gpulint]\ncache-dir = "./a//b"\n')
    assert main(["config", "show"]) == 0
    assert f'cache-dir = "{cache}"' in (shown := capsys.readouterr().out)
    assert "# GPULINT_CACHE_DIR" in shown
    monkeypatch.delenv("GPULINT_CACHE_DIR")
    assert main(["config", "show"]) == 0
    assert 'cache-dir = "a/b"' in capsys.readouterr().out


def test_clean(tree: Path, cache: Path, scan: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clean"]) == 0
    assert "no cache" in capsys.readouterr().out
    scan()
    assert main(["clean"]) == 0
    assert not cache.exists()
    named = tree.parent / "named"
    scan("--cache-dir", str(named))
    (named / "notes.txt").write_text("mine")
    assert main(["clean", "--cache-dir", str(named)]) == 0
    assert "kept with 1 entry that gpulint did not write" in capsys.readouterr().out
    assert not entries(named)
    assert (named / "notes.txt").read_text() == "mine"
    scan("--cache-dir", str(named))
    assert entries(named), "what is left is a cache still"


def test_clean_removes_the_caches_of_a_project(
    tree: Path, cache: Path, scan: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "pyproject.toml").write_text('[tool.gpulint]\ncache-dir = "of/tools"\n')
    scan()
    monkeypatch.delenv("GPULINT_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tree.parent))
    scan()
    old = tree / ".gpulint_cache"
    old.mkdir()
    (old / ".gitignore").write_text("*\n")
    (old / "CACHEDIR.TAG").write_text(f"{SIGNATURE}\n# Made by gpulint; `gpulint clean` removes it.\n")
    (old / f"{'0a' * 20}.json").write_text("{}")
    (old / f"{'0a' * 20}.4711.tmp").write_text("{")
    assert entries(tree / "of" / "tools")
    assert main(["clean"]) == 0
    assert not old.exists()
    assert not (tree / "of" / "tools").exists()
    assert not (tree.parent / "gpulint").exists()
    assert (tree / "half-the-gpus").is_dir()


@pytest.mark.parametrize("tag", [None, f"{SIGNATURE}\n# This file was made by another tool.\n"])
def test_clean_leaves_alone_what_gpulint_did_not_make(
    tree: Path, cache: Path, scan: Any, capsys: pytest.CaptureFixture[str], tag: str | None
) -> None:
    scan()
    other = tree / ".gpulint_cache"
    other.mkdir()
    (other / f"{'0a' * 20}.json").write_text("{}")
    if tag is not None:
        (other / "CACHEDIR.TAG").write_text(tag)
    assert main(["clean"]) == 2
    assert "is not a gpulint cache" in capsys.readouterr().err
    assert (other / f"{'0a' * 20}.json").exists()
    assert not cache.exists(), "the others are removed all the same"


def test_a_folder_that_appears_where_one_was_looked_for_is_noticed(tmp_path: Path) -> None:
    """Of absent folders only what lies above is asked again."""
    from gpulint.cache import _still_holds

    (tmp_path / "here").mkdir()
    (tmp_path / "a-file").touch()
    absent = [tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "c", tmp_path / "here" / "x"]
    absent += [tmp_path / "a-file" / "b", tmp_path / "unasked" / "d"]
    for folder in absent:
        files = Files(tmp_path, [])
        for asked in (tmp_path, tmp_path / "here", tmp_path / "a-file", *absent):
            files.entries(asked)
        answers = files.disk_queries()
        assert len(answers["entries"]) < 3 + len(absent)
        assert _still_holds(answers)
        if folder.parent.name == "a-file":
            folder.parent.unlink()
        folder.mkdir(parents=True)
        assert not _still_holds(answers), folder
        shutil.rmtree(tmp_path / folder.relative_to(tmp_path).parts[0])
        (tmp_path / "here").mkdir(exist_ok=True)
        (tmp_path / "a-file").touch()


ANALYSIS = ("launch", "placement", "programs", "semantic", "training", "transfers", "values", "workload")


def test_a_cached_report_needs_no_analysis(tmp_path: Path, cache: Path) -> None:
    """The analysis takes longer to import than such a scan takes."""
    program = (
        "import sys\nfrom gpulint.cli import main\n"
        f"main({['scan', '--isolated', '--output-file', os.devnull, str(EXAMPLES / 'unpinned-loader')]!r})\n"
        "print(*(name for name in sys.modules if name.startswith('gpulint.')))\n"
    )
    for _ in range(2):
        run = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True)
    imported = {name.split(".")[1] for name in run.stdout.split()}
    assert imported
    assert not imported & set(ANALYSIS)
