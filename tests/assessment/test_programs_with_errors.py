"""Programs that pass an argument twice, by its place and by its name, or read what nothing defines beside an `exec`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import HEAD, IMAGES, TRAINING, bases

UTILS = """\
import torch


def save_ckpt(state, arch, is_best=False):
    torch.save(state, arch)
"""
TRAIN = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.models import resnet50

from utils import save_ckpt


def validate(loader, model):
    model.eval()
    right = 0
    for images, labels in loader:
        right += (model(images.cuda()).argmax(1) == labels.cuda()).sum().item()
    return right


def main():
    model = resnet50().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train_loader = DataLoader(ImageFolder("train"), batch_size=64, shuffle=True, num_workers=8)
    valid_loader = DataLoader(ImageFolder("valid"), batch_size=64, num_workers=8)
    best = 0
    for epoch in range(90):
        for images, labels in train_loader:
            loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        right = validate(valid_loader, model)
        if right > best:
            {better}
        else:
            {other}


if __name__ == "__main__":
    main()
"""
TWICE = 'save_ckpt(model.state_dict(), "net", epoch, is_best=False)'
ONCE = 'save_ckpt(model.state_dict(), "net", is_best=False)'


@pytest.mark.parametrize(
    ("better", "other", "fails"),
    [
        (TWICE, TWICE, True),
        (TWICE, ONCE, False),
        (ONCE, ONCE, False),
        ('save_ckpt(model.state_dict(), "net", epoch)', ONCE, False),
        ('save_ckpt(*parts, "net", epoch, is_best=True)', TWICE, False),
    ],
)
def test_an_argument_given_twice_raises_an_error(tmp_path: Path, better: str, other: str, fails: bool) -> None:
    files = {"utils.py": UTILS, "train.py": TRAIN.format(better=better, other=other)}
    (found,) = bases(tmp_path, files, "GPU203")
    assert ("the loop or function around raises an error" in found) is fails
    assert found.startswith("low" if fails else "medium")


NAMES = "".join(f"NAME{one} = {one}\nprint(NAME{one})\n" for one in range(30))


@pytest.mark.parametrize(
    ("runs", "fails"),
    [
        ('exec("from densenet import {}".format(name))', True),
        ("exec(f'import {name}')", True),
        ("exec(open(name).read())", False),
        ("exec(text)", False),
        ('execfile("train.py")', False),
    ],
)
def test_a_text_that_is_written_there_runs_no_program(tmp_path: Path, runs: str, fails: bool) -> None:
    program = HEAD + NAMES + IMAGES + "total = 0\n" + TRAINING
    files = {
        "net.py": "from torch.nn import Linear as Net\n",
        "train.py": program,
        "models.py": f"name = 'dense'\n{runs}\n",
    }
    (found,) = bases(tmp_path, files, "GPU303")
    assert ("raises an error" in found) is fails
