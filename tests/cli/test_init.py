"""``gpulint init``: a settings file that says what the tree told, and nothing that exists is touched."""

from __future__ import annotations

import contextlib
import os
import tomllib
from pathlib import Path

import pytest

from gpulint.cli import main
from gpulint.config import load
from gpulint.settings import SETTINGS

JOB = "#!/bin/bash\n#SBATCH --gres=gpu:4\nsrun python train.py --data /data/imagenet --out /mnt/blob/runs\n"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "job.sh").write_text(JOB)
    (tmp_path / "train.py").write_text("import torch\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_train.py").write_text("x = '/scratch/x'\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def uncommented(text: str) -> dict[str, object]:
    """The settings that the examples in the comments would make."""
    keys = tuple(f"# {key} = " for key in SETTINGS)
    return tomllib.loads("\n".join(line[2:] for line in text.splitlines() if line.startswith(keys)))


def test_a_new_file_tells_what_the_tree_told(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("init",)) == 0
    out = capsys.readouterr().out
    assert "Wrote gpulint.toml after reading 3 files." in out
    assert "Jobs in this project request 4 GPUs per node (job.sh:2)." in out
    assert "Known to be remote: /mnt/blob (job.sh:3)." in out
    assert "Uncomment the line if these are remote on your cluster: /data (job.sh:3)." in out
    assert "Tests found in tests/." in out
    text = (tree / "gpulint.toml").read_text()
    assert tomllib.loads(text) == {}
    examples = uncommented(text)
    assert examples.keys() == SETTINGS.keys()
    assert (examples["gpus-per-node"], examples["remote-paths"]) == (4, ["/data"])
    assert max(map(len, text.splitlines())) <= 110


def test_every_example_is_a_valid_setting(tree: Path) -> None:
    assert main(("init",)) == 0
    lines = (tree / "gpulint.toml").read_text().splitlines()
    keys = tuple(f"# {key} = " for key in SETTINGS)
    (tree / "gpulint.toml").write_text("\n".join(line.removeprefix("# ") for line in lines if line.startswith(keys)))
    assert load(tree).gpus_per_node == 4


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_project_file_gets_a_table_at_its_end(tree: Path, newline: str) -> None:
    old = newline.join(["[project]", 'name = "é"  # mine', "[tool.ruff]", "line-length = 100"]).encode()
    (tree / "pyproject.toml").write_bytes(old)
    assert main(("init",)) == 0
    new = (tree / "pyproject.toml").read_bytes()
    assert new.startswith(old)
    assert new.count(b"\n") == new.count(newline.encode())
    assert tomllib.loads(new.decode())["tool"] == {"ruff": {"line-length": 100}, "gpulint": {}}
    assert not (tree / "gpulint.toml").exists()
    assert load(tree).source == tree / "pyproject.toml"


def test_a_project_file_that_cannot_take_a_table_is_left_alone(tree: Path) -> None:
    (tree / "pyproject.toml").write_text("tool = { ruff = { line-length = 100 } }\n")
    assert main(("init",)) == 0
    assert (tree / "pyproject.toml").read_text() == "tool = { ruff = { line-length = 100 } }\n"
    assert (tree / "gpulint.toml").is_file()


@pytest.mark.parametrize(
    ("name", "text"),
    [("gpulint.toml", "gpus-per-node = 8\n"), ("gpulint.toml", ""), ("pyproject.toml", "[tool.gpulint]\n")],
)
def test_existing_settings_are_never_touched(
    tree: Path, name: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / name).write_text(text)
    assert main(("init",)) == 2
    assert f"{name} already has settings; nothing was written" in capsys.readouterr().err
    assert (tree / name).read_text() == text
    assert {path.name for path in tree.iterdir()} == {"job.sh", "train.py", "tests", name}


def test_broken_settings_and_missing_folders_are_misuse(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "pyproject.toml").write_text("[tool\n")
    assert main(("init",)) == 2
    assert "pyproject.toml: not valid TOML" in capsys.readouterr().err
    assert (tree / "pyproject.toml").read_text() == "[tool\n"
    assert main(("init", "nowhere")) == 2
    assert "nowhere: no such folder" in capsys.readouterr().err


def test_strange_file_names_make_no_broken_file(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / "job\x1b[2J\nselect = 1.sh").write_text(JOB)
    with contextlib.suppress(OSError):  # a file system that takes UTF-8 only
        (tree / os.fsdecode(b"job\xff.sh")).write_text(JOB)
    assert main(("init",)) == 0
    assert tomllib.loads((tree / "gpulint.toml").read_text(encoding="utf-8")) == {}
    assert "\x1b" not in capsys.readouterr().out


def test_an_empty_tree_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("init", str(tmp_path))) == 0
    assert "Found no number of GPUs per node and no remote paths" in capsys.readouterr().out
