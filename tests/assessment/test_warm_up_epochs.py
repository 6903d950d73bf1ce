"""Loaders of a warm-up are drawn in few epochs; those that train most of them lead."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import impacts

PROGRAM = """\
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

CHANGE = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])


class Photos(Dataset):
    def __getitem__(self, index):
        return CHANGE(Image.open(paths[index]).convert("RGB")), labels[index]


class Loaders:
    def run(self, mode):
        if mode == "warmup":
            warm = DataLoader(Photos(), batch_size=64, shuffle=True, num_workers=8)
            return warm
        elif mode == "train":
            full = DataLoader(Photos(), batch_size=64, shuffle=True, num_workers=8)
            return full


def warm_up(loader):
    for images, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()


def train(loader):
    for images, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()


loaders = Loaders()
model = torch.nn.Linear(2, 2).cuda()
for epoch in range(args.epochs):
    if {test}:
        warm_up(loaders.run("warmup"))
    else:
        train(loaders.run("train"))
"""


@pytest.mark.parametrize(
    ("test", "few"),
    [
        ("epoch < args.warm_up", True),
        ("epoch <= warmup_epochs", True),
        ("args.warm_up > epoch", True),
        ("epoch < 3", True),
        ("epoch < args.switch", False),
        ("epoch < 50", False),
    ],
)
def test_the_loader_of_a_warm_up(tmp_path: Path, test: str, few: bool) -> None:
    warm, full = impacts(tmp_path, {"train.py": PROGRAM.replace("{test}", test)})["GPU301"]
    assert ("some passes" in warm.basis) is few
    assert ("beside" in full.basis) is not few
    assert "some passes" not in full.basis


def test_the_loader_of_what_follows_the_warm_up(tmp_path: Path) -> None:
    found = impacts(tmp_path, {"train.py": PROGRAM.replace("{test}", "epoch >= args.warm_up")})["GPU301"]
    assert ["some passes" in one.basis for one in found] == [False, True]
