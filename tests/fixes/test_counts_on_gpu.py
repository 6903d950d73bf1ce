"""What the host counted in copies of whole tensors is counted on the GPU: programs run before and after."""

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


def train(epoch):
    correct, right, hits, total, cost, norms = 0, 0, 0, 0, 0.0, 0.0
    for step, (x, y) in enumerate(train_loader):
        x, y = x.to(device), y.to(device)
        output = model(x)
        loss = criterion(output, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        prediction = output.argmax(1)
        correct += prediction.eq(y).cpu().sum()
        right += (prediction == y).cpu().sum().item()
        hits += int((prediction == y).sum())
        total += len(y)
        cost += loss.data.cpu().numpy()
        norms += output.norm().detach().cpu().numpy() * 2
        if step % 50 == 0:
            print("%.3f%% of %d (%d)" % (100.0 * float(correct) / total, total, correct))
    print(f"{cost / total:.4f} {norms:.4f}")
    print(correct, correct.numpy() / total, type(right), right, type(hits), hits)


for epoch in range(2):
    train(epoch)
"""


def test_counts_are_the_same(job: MakeJob) -> None:
    pytest.importorskip("torch")
    made = job({"train.py": PROGRAM})
    fixes, before, after = made.repaired("train.py", "GPU305")
    text = made.text("train.py")
    assert fixes == 5
    assert "correct += prediction.eq(y).sum()\n" in text
    assert "right += (prediction == y).sum()\n" in text
    assert "cost += loss.detach().double()\n" in text
    assert "norms += output.norm().detach().double() * 2\n" in text
    assert "hits += (prediction == y).sum()\n" in text
    assert "    correct = torch.as_tensor(correct).cpu()\n" in text
    assert "(100.0 * float(correct) / total, total, correct)" in text
    assert after == before and "tensor(" in before


CASES = {
    "the number of wrong samples, as text": ("(%d)", "(%s)", "torch.as_tensor(correct).cpu()))"),
    "a sum of floats": ("prediction.eq(y).cpu().sum()", "output.cpu().sum()", "correct += output.cpu().sum()"),
    "per class": ("prediction.eq(y).cpu().sum()", "prediction.eq(y).cpu().sum(0)", ".cpu().sum(0)"),
    "another tensor is added": (
        "total += len(y)",
        "total += len(y)\n        correct += (x > 0).float().sum()",
        "correct += prediction.eq(y).cpu().sum()",
    ),
    "a tensor of the host": (
        "correct, right, hits, total, cost, norms = 0,",
        "correct, right, hits, total, cost, norms = start,",
        ".cpu().sum()",
    ),
}


@pytest.mark.parametrize(("old", "new", "kept"), CASES.values(), ids=CASES)
def test_other_sums_are_read_as_before(job: MakeJob, old: str, new: str, kept: str) -> None:
    assert old in PROGRAM
    made = job({"train.py": PROGRAM.replace(old, new)})
    made.repair("GPU305")
    assert kept in made.text("train.py")
