"""Programs that call a method of an object, which a function gets, with arguments that it does not take."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import bases

SEARCHER = """\
import torch

from bases import Unseen


class Searcher:
    def __init__(self, model, args):
        self.model = model

    def step(self, images, labels, config, temp=1):
        return self.model(images)


class Any(Searcher):
    def step(self, images, labels, **more):
        return self.model(images)


class Wrapped(Searcher):
    @Unseen.checked
    def step(self, images, labels, config):
        return self.model(images)
"""
TRAIN = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.models import resnet50

from searcher import Any, Searcher, Wrapped


def train(loader, model, searcher, optimizer, update=True):
    for step, (images, labels) in enumerate(loader):
        {test}found = searcher.step(images.cuda(), labels.cuda(), {passed})
        loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main():
    model = resnet50().cuda()
    searcher = {made}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(ImageFolder("images"), batch_size=64, shuffle=True)
    for epoch in range(90):
        train(loader, model, {handed}, optimizer{more})


if __name__ == "__main__":
    main()
"""
MADE = "Searcher(model, args)"


def _fails(folder: Path, files: dict[str, str] | None = None, **parts: str) -> bool:
    given = {"test": "", "passed": "temp=3", "made": MADE, "handed": "searcher", "more": "", **parts}
    found = bases(folder, {"searcher.py": SEARCHER, "train.py": TRAIN.format(**given), **(files or {})}, "GPU303")
    return "raises an error" in found[0]


@pytest.mark.parametrize(
    "parts",
    [{}, {"passed": "3, 4, 5"}, {"passed": "config, tmp=3"}, {"test": "if step % 10 == 0:\n            "}],
)
def test_a_method_of_an_object_that_is_handed_over_does_not_fit(tmp_path: Path, parts: dict[str, str]) -> None:
    assert _fails(tmp_path, **parts)


@pytest.mark.parametrize(
    "parts",
    [
        {"passed": "config, temp=3"},
        {"passed": "config=1"},
        {"passed": "*rest"},
        {"made": "Any(model, args)"},
        {"made": "Wrapped(model, args)"},
        {"made": "make(model, args)"},
        {"handed": "wrap(searcher)"},
        {"handed": "Any(model, args)"},
        {"test": "if update:\n            "},
    ],
)
def test_a_method_that_may_take_it_runs(tmp_path: Path, parts: dict[str, str]) -> None:
    assert not _fails(tmp_path, **parts)


def test_another_caller_may_hand_over_another_object(tmp_path: Path) -> None:
    other = "from searcher import Any\nfrom train import train\n\nsearcher = Any(1, 2)\ntrain(1, 2, searcher, 3)\n"
    assert not _fails(tmp_path, {"other.py": other})
