"""Sums that objects keep on the GPU are those that were added up on the host: programs run before and after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

MakeJob = Callable[..., Any]

PROGRAM = """\
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


class Overlap:
    def __init__(self, classes):
        self.classes = classes
        self.tp = [0] * classes
        self.fp = [0] * classes
        self.right = 0
        self.seen = 0
        self.cost = 0.0

    def update(self, prediction, target, loss):
        for c in range(self.classes):
            self.tp[c] += torch.sum((prediction == c) & (target == c)).item()
            self.fp[c] += torch.sum((prediction == c) & ~(target == c)).item()
        self.right += (prediction == target).sum().item()
        self.seen += len(target)
        self.cost += loss.item() * 2

    def scores(self):
        parts = [float(self.tp[c]) / max(float(self.tp[c] + self.fp[c]), 1e-8) for c in range(self.classes)]
        return parts, self.right / self.seen, self.right, self.cost

    def text(self):
        return f"{{self.right}} of {self.seen} are right: {self.right}, {self.tp[0]}"


meter = Overlap(2)
for epoch in range(2):
    for x, y in train_loader:
        x, y = x.to(device), y.to(device)
        output = model(x)
        loss = criterion(output, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meter.update(output.argmax(1), y, loss)
    print(meter.scores())
    print(meter.text())
"""


def test_sums_of_an_object_are_the_same(job: MakeJob) -> None:
    pytest.importorskip("torch")
    made = job({"train.py": PROGRAM})
    fixes, before, after = made.repaired("train.py", "GPU305")
    text = made.text("train.py")
    assert fixes == 4
    assert "self.tp[c] += torch.sum((prediction == c) & (target == c))\n" in text
    assert "self.cost += loss.detach().double() * 2" in text
    assert "return parts, int(self.right) / self.seen, int(self.right), float(self.cost)" in text
    assert "{self.seen} are right: {int(self.right)}, {int(self.tp[0])}" in text
    assert after == before and "(" in before


RIGHT = "self.right += (prediction == target).sum().item()\n"
CASES = {
    "read in every step": (
        "self.seen += len(target)\n",
        "self.seen += len(target)\n        print(self.right)\n",
        RIGHT,
    ),
    "read through the object": ("print(meter.scores())", "print(meter.right)", RIGHT),
    "shown with its own text": ("return parts,", "return f'{self.right=}',", RIGHT),
    "a class inherits it": (
        "meter = Overlap(2)\n",
        "class More(Overlap):\n    def share(self):\n        return self.right\n\n\nmeter = More(2)\n",
        RIGHT,
    ),
}


TABLES = {
    "not a list of numbers": ("self.tp = [0] * classes", "self.tp = counts(classes)"),
    "used as a whole": ("return parts,", "return self.tp,"),
}


@pytest.mark.parametrize(("old", "new"), TABLES.values(), ids=TABLES)
def test_tables_that_stay_on_the_host_get_the_numbers_of_a_step_in_one_copy(job: MakeJob, old: str, new: str) -> None:
    assert old in PROGRAM
    made = job({"train.py": PROGRAM.replace(old, new)})
    made.repair("GPU305")
    text = made.text("train.py")
    assert "self.tp[c] += tp\n" in text and "enumerate(torch.stack(values).tolist()" in text


@pytest.mark.parametrize(("old", "new", "kept"), CASES.values(), ids=CASES)
def test_sums_that_are_used_otherwise_are_left_alone(job: MakeJob, old: str, new: str, kept: str) -> None:
    assert old in PROGRAM and kept in PROGRAM
    made = job({"train.py": PROGRAM.replace(old, new)})
    made.repair("GPU305")
    assert kept in made.text("train.py")
