"""A method that every class named by a configuration replaces does not run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpulint.cli import main

BASE = """\
import torch


class Trainer:
    def __init__(self, model, loader):
        self.model, self.loader = model.cuda(), loader
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def losses(self, images):
        loss = self.model(images).mean()
        return loss, {"per": [self.model(image).mean().item() for image in images]}

    def run(self):
        for epoch in range(90):
            for images in self.loader:
                loss, status = self.losses(images.cuda(non_blocking=True))
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()


class Guided(Trainer):
    pass
"""
OWN = """\
from base import Trainer


class Masks(Trainer):
    def losses(self, images):
        return self.model(images).sum(), {}


class LargeMasks(Masks):
    pass
"""
MAIN = """\
import json
import sys

import trainers
from data import loader
from net import Net

config = json.load(open(sys.argv[1]))
getattr(trainers, config["trainer"])(Net(), loader).run()
"""
TREE = {
    "base.py": BASE,
    "masks.py": OWN,
    "trainers.py": 'from base import *\nfrom masks import *\n\n__all__ = ["Trainer", "Guided", "Masks", "LargeMasks"]\n',
    "train.py": MAIN,
    "net.py": "from torch.nn import Linear as Net\n",
    "data.py": "from torch.utils.data import DataLoader\nloader = DataLoader(list(range(9)), num_workers=4)\n",
    "configs/stage2/masks.json": '{"trainer": "LargeMasks"}\n',
    "train.sh": "#SBATCH --gres=gpu:1\npython train.py configs/stage2/masks.json\n",
}
LOW = "the classes that configurations name override it"


def _bases(folder: Path, capsys: pytest.CaptureFixture[str], files: dict[str, str]) -> list[str]:
    for name, text in (TREE | files).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    main(["scan", "--no-cache", "--impact", "low", "--select", "GPU305", "--output-format", "json", str(folder)])
    return [one["impact"]["basis"] for one in json.loads(capsys.readouterr().out)]


def test_a_method_that_each_named_class_replaces_does_not_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = _bases(tmp_path, capsys, {})
    assert found
    assert all(LOW in basis for basis in found)


@pytest.mark.parametrize(
    "files",
    [
        {"configs/stage2/guided.json": '{"trainer": "Guided"}\n'},
        {"configs/base.json": '{"trainer": "Trainer"}\n'},
        {"configs/stage2/masks.json": "{}\n"},
        {"masks.py": OWN.replace("self.model(images).sum(), {}", "super().losses(images)")},
        {"train.py": MAIN + "trainers.Guided(Net(), loader).run()\n"},
        {"README.md": "`--trainer Guided` trains with guidance.\n"},
    ],
)
def test_a_method_that_a_class_inherits_which_may_be_made_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], files: dict[str, str]
) -> None:
    found = _bases(tmp_path, capsys, files)
    assert found
    assert not any(LOW in basis for basis in found)
