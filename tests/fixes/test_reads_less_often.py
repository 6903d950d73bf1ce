"""Programs whose numbers stay on the GPU print the same ones: real programs run before and after unsafe fixes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Declined

MakeJob = Callable[..., Any]

PROGRAM = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
inputs = torch.randn(96, 16)
targets = (inputs[:, 0] > 0).long()
loader = DataLoader(TensorDataset(inputs, targets), batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
criterion = nn.CrossEntropyLoss()
history = {"loss": []}


def gradient_norm(model):
    total_norm = 0
    for p in model.parameters():
        total_norm += p.grad.data.norm(2).item() ** 2
    total_norm = total_norm ** 0.5
    return total_norm


def step(x, y):
    output = model(x)
    loss = criterion(output, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    correct = (output.argmax(1) == y).sum().item()
    return loss.item(), correct


def parts(output, y):
    whole = criterion(output, y)
    return whole, {"whole": whole.item(), "half": float(whole / 2)}


def train(epoch):
    shown = 0.0
    total, losses, right, seen, average = 0.0, [], 0, 0, 0.0
    sums = [0.0] * 2
    for i, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        loss, correct = step(x, y)
        total += loss * len(y)
        losses.append(loss)
        right += correct
        norm = gradient_norm(model)
        extra, table = parts(model(x), y)
        shown += table["half"]
        extra.backward()
        optimizer.step()
        average = 0.4 * extra.item() + 0.6 * average
        history["loss"].append(extra.item())
        sums[i % 2] += extra.item()
        if not torch.isfinite(extra):
            raise ValueError("no number")
        seen += float(extra.detach().cpu()) * len(y)
        if i % 3 == 0:
            print(loss, correct, table, f"{norm:.4f} {average:.6f}")
    total = total / len(loader)
    return total, losses, right, seen, average, sums, shown


for epoch in range(3):
    print(*train(epoch))
print(history)
"""


def test_numbers_and_parameters_are_the_same(job: MakeJob) -> None:
    pytest.importorskip("torch")
    made = job({"train.py": PROGRAM})
    reads = PROGRAM.count(".item()") + PROGRAM.count("float(")
    assert made.repair("GPU305") >= reads
    fixed = made.text("train.py")
    assert fixed.count(".item()") == 0
    found = job({}).outputs({"before.py": PROGRAM, "after.py": fixed})
    assert len(found["before.py"].splitlines()) == 10
    assert found["after.py"] == found["before.py"], fixed


SHARED = """\
import math
import sys

import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def train(loader):
    model = nn.Linear(3, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        total, correct, seen, losses, accs, means = 0.0, 0, 0, [], [], []
        running = 0.0
        for step, (x, y) in enumerate(loader):
            x, y = x.to(device), y.to(device)
            out = model(x)
            loss = nn.functional.cross_entropy(out, y)
            loss_value = loss.item()
            if not math.isfinite(loss_value):
                print(f"Loss is {loss_value}, stopping")
                sys.exit(1)
            loss /= 2
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss_value * len(x)
            seen += len(x)
            losses.append(loss_value)
            hits = (out.argmax(1) == y).sum().item()
            acc = hits / len(x)
            accs.append(acc)
            correct += hits
            means.append(100.0 * correct / seen)
            running += loss_value
            if step % 5 == 0:
                print(step, loss_value, hits, acc, f"{running / 5:.4f}")
                running = 0.0
        print(total / seen, correct, correct / seen, losses, accs, means)


train_loader = [(torch.randn(8, 3), torch.randint(4, (8,))) for _ in range(12)]
train(train_loader)
"""


def test_values_that_a_step_uses_several_times_are_the_same(job: MakeJob) -> None:
    pytest.importorskip("torch")
    made = job({"train.py": SHARED})
    assert made.repair("GPU305") == 2
    fixed = made.text("train.py")
    assert fixed.count(".item()") == 0
    assert "if step % 5 == 0 and not math.isfinite(float(loss_value)):" in fixed
    found = job({}).outputs({"before.py": SHARED, "after.py": fixed})
    assert len(found["before.py"].splitlines()) == 12
    assert found["after.py"] == found["before.py"], fixed


LISTS = """\
from collections import defaultdict

import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Trainer:
    def __init__(self):
        self.losses = []
        self.sums = []
        self.model = nn.Linear(3, 4).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def train(self, loader):
        parts = defaultdict(list)
        for x, y in loader:
            out = self.model(x.to(device))
            loss = nn.functional.cross_entropy(out, y.to(device))
            penalty = (out ** 2).mean()
            self.optimizer.zero_grad()
            (loss + 0.01 * penalty).backward()
            self.optimizer.step()
            self.losses.append(loss.item())
            self.sums.append(float(loss.item()) + 0.01 * penalty.item())
            for name, part in {"loss": loss, "penalty": penalty}.items():
                parts[name].append(part.item())
        return {name: sum(values) / len(values) for name, values in parts.items()}


trainer = Trainer()
for epoch in range(3):
    print(trainer.train([(torch.randn(8, 3), torch.randint(4, (8,))) for _ in range(12)]))
    print(trainer.losses, trainer.sums)
"""


def test_lists_of_objects_and_tables_hold_the_same(job: MakeJob) -> None:
    pytest.importorskip("torch")
    made = job({"train.py": LISTS})
    assert made.repair("GPU305") == 3
    fixed = made.text("train.py")
    assert fixed.count(".item()") == 0
    found = job({}).outputs({"before.py": LISTS, "after.py": fixed})
    assert len(found["before.py"].splitlines()) == 6
    assert found["after.py"] == found["before.py"], fixed


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("sys.exit(1)", "continue"),
        ("losses.append(loss_value)", "if loss_value < 2:\n                losses.append(loss_value)"),
        ("running += loss_value", "running = max(running, loss_value)"),
    ],
)
def test_values_on_which_a_step_depends_stay(job: MakeJob, old: str, new: str) -> None:
    """Then no other read of the loop is worth a change either."""
    assert old in SHARED
    fixes = [result.fix for result in job({"train.py": SHARED.replace(old, new)}).scan("GPU305")]
    assert [type(fix) for fix in fixes] == [Declined, Declined]
    assert ["waits in line" in fix.reason for fix in fixes] == [False, True]
