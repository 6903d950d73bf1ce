"""Functions that several modules define, of which programs import each from one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import scan

FIRST = """\
import torch
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder


def train():
    model = torch.nn.Linear(9, 9).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(ImageFolder("train"), batch_size=64, pin_memory=True)
    for epoch in range(90):
        for x, y in loader:
            optimizer.zero_grad()
            model(x.cuda(non_blocking=True)).mean().backward()
            optimizer.step()


def other():
    print("other")
"""
PROGRAM = 'from {} import train\n\nif __name__ == "__main__":\n    train()\n'
OTHER = 'from first import other\n\nif __name__ == "__main__":\n    other()\n'
FILES = {
    "first.py": FIRST,
    "second.py": FIRST.replace("64", "32"),
    "train.py": PROGRAM.format("second"),
    "other.py": OTHER,
}


def _levels(folder: Path, files: dict[str, str]) -> dict[str, str]:
    """The levels of the loaders of ``train``, by the file."""
    found = [result.finding for result in scan(folder, files).results if result.finding.rule.code == "GPU303"]
    return {finding.path.name: finding.impact.level.name.lower() for finding in found}


def test_the_function_that_no_program_imports_costs_little(tmp_path: Path) -> None:
    assert _levels(tmp_path, FILES) == {"first.py": "low", "second.py": "high"}


@pytest.mark.parametrize("module", ["new_copy_of_first", "archive.trainers"])
def test_a_missing_module_is_not_any_that_defines_the_name(tmp_path: Path, module: str) -> None:
    files = {**FILES, "old.py": PROGRAM.format(module)}
    assert _levels(tmp_path, files) == {"first.py": "low", "second.py": "high"}


def test_a_missing_package_may_have_the_module_of_that_name(tmp_path: Path) -> None:
    files = {**FILES, "old.py": PROGRAM.format("package.first")}
    assert _levels(tmp_path, files)["first.py"] == "high"


def test_the_only_module_that_defines_a_name_may_be_meant(tmp_path: Path) -> None:
    files = {"first.py": FIRST, "old.py": PROGRAM.format("package")}
    assert _levels(tmp_path, files) == {"first.py": "medium"}  # but no module of that name is seen


def test_a_project_that_is_installed_may_offer_it_under_another_name(tmp_path: Path) -> None:
    files = {**FILES, "pyproject.toml": '[project]\nname = "package"\n', "old.py": PROGRAM.format("package")}
    assert _levels(tmp_path, files)["first.py"] == "high"
