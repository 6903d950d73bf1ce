"""Classes that add up what a step hands them keep the sums on the GPU: programs run before and after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

MakeJob = Callable[..., Any]

PROGRAM = """\
from collections import defaultdict

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
inputs = torch.randn(96, 16)
targets = (inputs[:, 0] > 0).long()
train_loader = DataLoader(TensorDataset(inputs, targets), batch_size=16)
model = nn.Linear(16, 2).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
criterion = nn.CrossEntropyLoss()


class Average:
    def __init__(self):
        self.total = self.count = 0

    def add(self, value, n=1):
        self.total += value * n
        self.count += n

    def get(self):
        return self.total / max(self.count, 1)

    def reset(self):
        self.total = self.count = 0


class Tracker:
    total: float = 0.0
    seen: int = 0

    def update(self, value: float, n: int = 1) -> None:
        self.total += float(value) * int(n)
        self.seen += int(n)

    @property
    def mean(self):
        return self.total / self.seen if self.seen else 0.0


def train():
    for x, y in train_loader:
        x, y = x.to(device), y.to(device)
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        averages["loss"].add(loss.item(), len(y))
        trackers["loss"].update(float(loss.detach()), len(y))


averages = defaultdict(Average)
trackers = {name: Tracker() for name in ("loss", "none")}
for epoch in range(2):
    train()
    for name in averages:
        print(name, averages[name].get().hex())
        averages[name].reset()
    print({name: tracker.mean.hex() for name, tracker in trackers.items()})
"""


def test_averages_of_objects_are_the_same(job: MakeJob) -> None:
    pytest.importorskip("torch")
    made = job({"train.py": PROGRAM})
    fixes, before, after = made.repaired("train.py", "GPU305")
    text = made.text("train.py")
    assert fixes == 2
    assert 'averages["loss"].add(loss.detach().double(), len(y))' in text
    assert "return float(self.total) / max(self.count, 1)" in text
    assert "self.total += value * int(n)" in text
    assert "return float(self.total) / self.seen if self.seen else 0.0" in text
    assert after == before and "0x" in before


ADDS = 'averages["loss"].add(loss.item(), len(y))'
CASES = {
    "a step reads the average": (f"{ADDS}\n", f'{ADDS}\n        print(averages["loss"].get())\n'),
    "a step passes it on": (f"{ADDS}\n", f"{ADDS}\n        show(averages)\n"),
    "a function reads it": (
        "def train():\n",
        "def show():\n    print(averages['loss'].get())\n\n\ndef train():\n",
    ),
    "it also keeps the largest": ("self.count += n\n", "self.count += n\n        self.most = max(self.most, value)\n"),
    "it starts as something else": ("self.total = self.count = 0\n\n    def add", "self.total = start\n\n    def add"),
    "other code reads the sum": ("averages[name].reset()", "print(averages[name].total)"),
    "other code has tensors": (
        "averages[name].reset()",
        "averages[name].add(loss)\n        averages[name].get().cpu()",
    ),
    "a class inherits it": ("averages = default", "class More(Average):\n    pass\n\n\naverages = default"),
    "another class may be meant": ("defaultdict(Average)", "{'loss': Average(), 'more': Tracker()}"),
}


@pytest.mark.parametrize(("old", "new"), CASES.values(), ids=CASES)
def test_other_objects_get_numbers(job: MakeJob, old: str, new: str) -> None:
    assert old in PROGRAM
    made = job({"train.py": PROGRAM.replace(old, new)})
    made.repair("GPU305")
    assert 'averages["loss"].add(loss.item(), len(y))' in made.text("train.py")
