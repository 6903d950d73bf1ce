"""Loops over parts of a tensor find equal values in one copy of all: programs run before and after."""

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
inputs = torch.randn(48, 6)
targets = (inputs[:, 0] > 0).long()
train_loader = DataLoader(TensorDataset(inputs, targets), batch_size=16)
model = nn.Linear(6, 3).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
criterion = nn.CrossEntropyLoss()
table, scores, rows, shown = {}, {}, [], []

for step, (x, y) in enumerate(train_loader):
    x, y = x.to(device), y.to(device)
    output = model(x)
    loss = criterion(output, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    preds = output.detach().softmax(-1)
    for b in range(preds.shape[0]):
        table[step, b] = int(preds[b].argmax())
        for c, score in enumerate(preds[b]):
            scores[step, b, c] = float(score)
    rows += [row.flatten(0).cpu().numpy() * 255 for row in preds]
    shown.append(preds.argmax(-1))
print(table, scores, rows, shown)
"""


def test_one_copy_gives_the_same_values(job: MakeJob) -> None:
    pytest.importorskip("torch")
    made = job({"train.py": PROGRAM})
    fixes, before, after = made.repaired("train.py", "GPU305")
    text = made.text("train.py")
    assert fixes >= 3
    assert "    preds_cpu = preds.cpu()\n    for b in range(preds.shape[0]):\n" in text
    assert "int(preds_cpu[b].argmax())" in text and "in enumerate(preds_cpu[b]):" in text
    assert "[row.flatten(0).numpy() * 255 for row in preds.cpu()]" in text
    assert after == before and "{(0, 0):" in before


CASES = {
    "a part stays on the GPU": ("scores[step, b, c] = float(score)", "scores[step, b, c] = float(score), score"),
    "the tensor changes in the loop": ("        for c, score", "        preds[b] = preds[b] / 2\n        for c, score"),
    "the tensor is used as a whole": ("        for c, score", "        keep(preds)\n        for c, score"),
}


@pytest.mark.parametrize(("old", "new"), CASES.values(), ids=CASES)
def test_other_uses_are_left_alone(job: MakeJob, old: str, new: str) -> None:
    made = job({"train.py": PROGRAM.replace(old, new)})
    made.repair("GPU305")
    assert "preds_cpu" not in made.text("train.py")
