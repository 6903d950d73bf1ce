"""Values that keep the graph of a loss are detached together: a program runs before and after, with equal results."""

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
loader = DataLoader(TensorDataset(torch.randn(48, 6), torch.randint(0, 3, (48,))), batch_size=16)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.head = nn.Linear(6, 4), nn.Linear(4, 3)

    def forward(self, x):
        inner = self.encoder(x)
        return self.head(inner), inner


model = Net().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()


def train():
    total, parts, features = 0, {"first": 0}, []
    for x, y in loader:
        out, inner = model(x.to(device))
        term = criterion(out, y.to(device))
        loss = 0
        loss += term
        parts["first"] += term
        features.append(inner)
        total += loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(float(total), float(parts["first"]), torch.cat(features).sum().item())


train()
print([parameter.sum().item() for parameter in model.parameters()])
"""


def test_all_that_keeps_the_graph_is_detached_and_the_training_stays_the_same(job: MakeJob) -> None:
    pytest.importorskip("torch")
    made = job({"train.py": PROGRAM})
    fixes, before, after = made.repaired("train.py", "GPU204")
    text = made.text("train.py")
    assert fixes
    for line in ('parts["first"] += term.detach()', "features.append(inner.detach())", "total += loss.detach()"):
        assert line in text
    assert after == before and before.count("\n") == 2
