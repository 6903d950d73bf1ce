"""A loader that the program only makes on request lowers no loader that it makes by default."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import bases

PROGRAM = """\
import argparse

import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms
from torchvision.models import resnet50


class Photos(Dataset):
    def __init__(self, paths, change=None):
        self.paths, self.change = paths, change

    def __getitem__(self, index):
        image = transforms.ToTensor()(Image.open(self.paths[index]))
        return image, 0

    def __len__(self):
        return len(self.paths)


class Changed(Photos):
    def __getitem__(self, index):
        image = Image.open(self.paths[index]).convert("RGB").resize((224, 224), Image.BICUBIC)
        return transforms.ToTensor()(image), 0


def train(first, second, model, optimizer):
    for epoch in range(90):
        for loader in (first, second):
            if loader is None:
                continue
            for images, labels in loader:
                loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
                loss.backward()
                optimizer.step()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", required=True)
    parser.add_argument("--add-changed", {option})
    args = parser.parse_args()
    if args.mode == "train":
        paths = torch.load("paths")
        model = resnet50().cuda()
        plain = DataLoader(Photos(paths), batch_size=64, shuffle=True)
        if args.add_changed:
            changed = DataLoader(Changed(paths), batch_size=64, shuffle=True)
        else:
            changed = None
        train(plain, changed, model, torch.optim.SGD(model.parameters(), lr=0.1))
"""


@pytest.mark.parametrize(
    ("option", "command", "is_off"),
    [
        ('action="store_true"', "", True),
        ('action="store_true"', "python train.py --mode train --add-changed", False),
        ("type=int, default=1", "", False),
    ],
)
def test_the_loader_that_is_made_by_default_leads(tmp_path: Path, option: str, command: str, is_off: bool) -> None:
    files = {"train.py": PROGRAM.format(option=option), "job.sh": f"#!/bin/bash\n#SBATCH --gres=gpu:1\n{command}\n"}
    plain, changed = bases(tmp_path, files, "GPU303")
    assert plain.startswith("low") is not is_off
    assert changed.startswith("low") is is_off
    assert ("off by default" in changed) is is_off
    assert ("set up as the loader beside it" in plain) is not is_off
