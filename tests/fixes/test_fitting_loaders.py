"""Loops that unpack another number of values than a loader gives are not fed by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

MakeJob = Callable[..., Any]

DATA = """\
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset


class Scans(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        {sample}


def make_loaders(paths):
    loaders = {{}}
    loaders["train"] = DataLoader(Scans(paths), batch_size=64, num_workers=8{more})
    return loaders
"""
LOOP = """\
import torch
from tools.data import make_loaders

model = torch.nn.Linear(9, 9).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = make_loaders(paths)["train"]
for epoch in range(90):
    {loop}
        x, y = images.cuda(), labels.cuda()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
"""
PAIR = "return transform(Image.open(self.paths[index])), torch.tensor(index)"
TWO = LOOP.format(loop="for step, (images, labels) in enumerate(loader):")


def _copies(job: MakeJob, loop: str, sample: str = PAIR, more: str = "") -> list[str]:
    """The files of the copies that pinning the loader's batches speeds up."""
    files = {"tools/data.py": DATA.format(sample=sample, more=more), "train.py": TWO}
    files["chest/train.py"] = LOOP.format(loop=loop)
    results = job(files).scan("GPU301")
    return sorted({place.path.parent.name for one in results for place in one.finding.related})


@pytest.mark.parametrize(
    "loop",
    [
        "for step, (index, images, labels) in enumerate(loader):",
        "for index, images, labels in loader:",
        "for step, (index, images, labels) in tqdm(enumerate(loader), total=9):",
        "for batch in loader:\n        index, images, labels = batch",
    ],
)
def test_three_values_are_no_batch_of_two(job: MakeJob, loop: str) -> None:
    assert len(_copies(job, loop)) == 1


@pytest.mark.parametrize(
    "loop",
    [
        "for step, (images, labels) in enumerate(loader):",
        "for images, labels in tqdm(loader):",
        "for images, *labels in loader:\n        labels = labels[0]",
        "for batch in loader:\n        images, labels = batch",
        "for batch in loader:\n        images, labels = batch[0], batch[1]",
    ],
)
def test_two_values_are(job: MakeJob, loop: str) -> None:
    assert len(_copies(job, loop)) == 2


@pytest.mark.parametrize(
    ("sample", "more"),
    [
        (PAIR, ", collate_fn=with_index"),
        ("sample = transform(self.paths[index])\n        return sample", ""),
        (f"if self.paths:\n            {PAIR}\n        return index, index, index", ""),
    ],
)
def test_what_is_not_known_may_fit(job: MakeJob, sample: str, more: str) -> None:
    assert len(_copies(job, "for index, images, labels in loader:", sample, more)) == 2
