"""A scan that uses what earlier ones found reports the very same as one that does not, and checks less."""

from __future__ import annotations

import importlib.util
import random
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from gpulint.cli import main
from gpulint.documents.python import PythonModule
from gpulint.workspace import index_builder
from gpulint.workspace.module_index import ModuleIndex

ROOT = Path(__file__).parents[2]


def incremental() -> ModuleType:
    """The benchmark that does the same on real trees."""
    spec = importlib.util.spec_from_file_location("incremental", ROOT / "benchmarks/incremental.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Programs and launchers of several examples in one tree, which is a project."""
    made = tmp_path / "tree"
    for example in ("half-the-gpus", "one-batch-size", "debugging-left-on", "checkpoint-to-blob"):
        shutil.copytree(ROOT / "examples" / example, made / example)
    (made / "pyproject.toml").write_text("[project]\nname = 'tree'\n")
    return made


def scan(tree: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[str, str]:
    """What a scan prints."""
    main(["scan", str(tree), "--exit-zero", *options])
    printed = capsys.readouterr()
    return printed.out, printed.err


@pytest.mark.parametrize("seed", range(4))
def test_reports_after_random_edits_are_those_of_a_fresh_scan(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    editor = incremental().Editor(tree, random.Random(seed))
    cached = ["--cache-dir", str(tmp_path / "cache")]
    for form in ("json", "full", "sarif") * 2:
        options = ["--output-format", form, "--report-unused-ignores"]
        edit = editor.edit()
        assert scan(tree, capsys, *options, *cached) == scan(tree, capsys, *options, "--no-cache"), edit


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_only_what_rests_on_a_change_is_checked_again(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], checked: list[str], jobs: str
) -> None:
    for number in range(6):
        (tree / f"train_{number}.py").write_text(
            "import torch\nfrom torch.utils.data import DataLoader\n"
            f"from helper_{number} import size\nloader = DataLoader(data, batch_size=size)\n"
            "for batch in loader:\n    model(batch.cuda()).sum().backward()\n"
        )
        (tree / f"helper_{number}.py").write_text("size = 4\n")
    options = ["--cache-dir", str(tmp_path / "cache"), "--select", "ALL"]
    scan(tree, capsys, *options, "--jobs", jobs)
    checked.clear()
    (tree / "helper_3.py").write_text("size = 8\n")
    after = scan(tree, capsys, *options, "--jobs", "1")
    assert {"helper_3.py", "train_3.py"} <= set(checked) and "train_1.py" not in checked
    assert after == scan(tree, capsys, *options[2:], "--no-cache")


def test_a_program_is_not_checked_again_after_a_change_in_an_import_that_says_nothing_of_it(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], checked: list[str]
) -> None:
    (tree / "train_net.py").write_text(
        "import torch\nimport notes\nfrom torch.utils.data import DataLoader\n"
        "for batch in DataLoader(data, batch_size=8):\n    model(batch.cuda()).sum().backward()\n"
    )
    (tree / "notes.py").write_text("import yaml\n\nanswer = 41\n")
    options = ["--cache-dir", str(tmp_path / "cache")]
    scan(tree, capsys, *options)
    checked.clear()
    (tree / "notes.py").write_text("import yaml\n\nanswer = 42\n")
    after = scan(tree, capsys, *options)
    assert checked == ["notes.py"]
    assert after == scan(tree, capsys, "--no-cache")


def test_the_callers_of_a_function_are_not_parsed_again_after_a_change_in_one_of_them(
    tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / "hub.py").write_text(
        "import torch\n\n\ndef build(pretrained):\n    if pretrained:\n"
        "        torch.hub.load('pytorch/vision', 'resnet18').cuda()\n"
    )
    for number in range(5):
        (tree / f"model_{number}.py").write_text(
            f"from hub import build\n\n\ndef make_{number}(pretrained=False):\n    return build(pretrained)\n"
        )
    options = ["--cache-dir", str(tmp_path / "cache")]
    scan(tree, capsys, *options)
    parsed = set[str]()
    index = index_builder.index_module

    def index_module(syntax: PythonModule, name: str) -> ModuleIndex:
        parsed.add(name)
        return index(syntax, name)

    monkeypatch.setattr(index_builder, "index_module", index_module)
    with (tree / "model_3.py").open("a") as file:
        file.write("\n\nprint(3)\n")
    after = scan(tree, capsys, *options)
    assert "model_3" in parsed and "model_1" not in parsed
    assert after == scan(tree, capsys, "--no-cache")
