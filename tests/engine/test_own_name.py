"""Programs that import from a repository by the name of its folder, as beside a clone of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpulint import engine, plugins
from gpulint.config import Config
from gpulint.project import Project

PROGRAM = """\
from torch.utils.data import DataLoader

from seg_net.steps import *

loader = DataLoader(Photos(), batch_size=64)
train(model, loader, optimizer)
"""
STEPS = """\
def train(model, loader, optimizer):
    for images in loader:
        model(images.cuda()).sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("folder", "found"),
    [
        ("seg_net", 1),
        ("seg_net-main", 1),
        ("an_owner__seg_net", 1),
        ("owner+seg_net", 1),
        ("other", 0),
        ("my_seg_net", 0),
    ],
)
def test_the_folder_of_the_tree_is_a_package(tmp_path: Path, folder: str, found: int) -> None:
    root = tmp_path / folder
    (root / "programs").mkdir(parents=True)
    (root / "steps.py").write_text(STEPS)
    (root / "programs" / "run.py").write_text(PROGRAM)
    assert _loaders(root) == found


def test_a_package_of_that_name_in_the_tree_comes_first(tmp_path: Path) -> None:
    root = tmp_path / "seg_net"
    (root / "seg_net").mkdir(parents=True)
    (root / "seg_net" / "steps.py").write_text("def train(model, loader, optimizer):\n    print(loader)\n")
    (root / "steps.py").write_text(STEPS)
    (root / "run.py").write_text(PROGRAM)
    assert _loaders(root) == 0


def _loaders(root: Path) -> int:
    paths = sorted(root.rglob("*.py"))
    report = engine.run(Project(root, paths, Config(base=root)), paths, plugins.load().rules)
    return sum(result.finding.rule.code == "GPU303" for result in report.results)
