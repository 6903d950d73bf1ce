"""Sizes of batches that callers take from the settings of a program, and which of two copies of a function counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpulint.cli import main
from tests.assessment.scans import bases

_TRAIN = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms
from PIL import Image

from net import Net


class Photos(Dataset):
    def __init__(self, paths):
        self.paths = paths
        self.prepare = transforms.Compose([transforms.Resize((224, 224)), transforms.ToTensor()])

    def __getitem__(self, index):
        return self.prepare(Image.open(self.paths[index]).convert("RGB"))


def fit(paths, batch_size: int = 256):
    loader = DataLoader(Photos(paths), batch_size=batch_size, shuffle=True, num_workers=8)
    model = Net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(90):
        for images in loader:
            loss = model(images.cuda()).mean()
            loss.backward()
            optimizer.step()
"""
_MAIN = """\
import hydra

from train import fit


@hydra.main(config_path="conf", config_name="main")
def main(cfg):
    fit(cfg.paths, batch_size=cfg.train.batch_size)


main()
"""
_FILES = {
    "net.py": "",
    "train.py": _TRAIN,
    "main.py": _MAIN,
    "conf/main.yaml": "train:\n  batch_size: 128\n",
    "conf/other.yaml": "train:\n  batch_size: 1024\n",
}
_GIVEN = "#!/bin/bash\n#SBATCH --gres=gpu:1\npython main.py train.batch_size=$1\n"
_LEFT = "#!/bin/bash\n#SBATCH --gres=gpu:1\npython main.py\n"


@pytest.mark.parametrize(
    ("jobs", "said"),
    [
        ({}, "77 MB"),
        ({"local.sh": _LEFT}, "77 MB"),
        ({"local.sh": _LEFT, "cluster.sh": _GIVEN}, "77 MB"),
        ({"cluster.sh": _GIVEN}, "batches from pageable memory"),
        ({"local.sh": _LEFT.replace("main.py", "main.py train.batch_size=64")}, "39 MB"),
    ],
)
def test_the_size_is_that_of_the_program(tmp_path: Path, jobs: dict[str, str], said: str) -> None:
    """A number of another configuration, or the default of the parameter, would be false."""
    (found,) = bases(tmp_path, {**_FILES, **jobs}, "GPU301")
    assert said in found
    assert not any(other in found for other in ("154 MB", "1024", "616 MB"))


@pytest.mark.parametrize(("called", "copy"), [("first", "second"), ("second", "first")])
def test_the_copy_that_a_program_calls_stands_for_the_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], called: str, copy: str
) -> None:
    """The other one is offered to those who install the tree."""
    files = {
        "net.py": "",
        "setup.py": "from setuptools import setup\n\nsetup()\n",
        "work/__init__.py": "from .first import fit_first\nfrom .second import fit_second\n",
        "work/first.py": _TRAIN.replace("def fit", "def fit_first"),
        "work/second.py": _TRAIN.replace("def fit", "def fit_second"),
        "main.py": _MAIN.replace("from train import fit", f"from work import fit_{called}").replace(
            "    fit(", f"    fit_{called}("
        ),
        "conf/main.yaml": "train:\n  batch_size: 128\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    main(["scan", "--isolated", "--no-cache", "--select", "GPU301", "--output-format", "json", str(tmp_path)])
    (found,) = [one for one in json.loads(capsys.readouterr().out) if one["impact"]["level"] != "low"]
    assert found["path"].endswith(f"work/{called}.py")
    assert "77 MB" in found["impact"]["basis"] and f"also in work/{copy}.py" in found["impact"]["basis"]
