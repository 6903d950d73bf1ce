"""Loops that index with the numbers of a tensor find the same rows with one copy of all: programs run before and
after."""

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
labels = torch.randint(0, 5, (48,))
loader = DataLoader(TensorDataset(inputs, labels), batch_size=16)
model = nn.Linear(6, 5).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()
bank = torch.zeros(5, 5, device=device)
names = ["a", "b", "c", "d", "e"]
seen = []

for x, y in loader:
    x, targets = x.to(device), y.to(device)
    output = model(x)
    loss = criterion(output, targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {loop}
print(bank, seen)
"""
ZIPPED = "for row, target in zip(output.detach(), targets):\n        bank[target] = 0.5 * bank[target] + 0.5 * row"
COUNTED = "for i in range(len(targets)):\n        bank[targets[i]] += output[i].detach()\n        seen.append(names[targets[i]])"


@pytest.mark.parametrize(
    ("loop", "made"), [(ZIPPED, "zip(output.detach(), targets.tolist())"), (COUNTED, "names[targets_list[i]]")]
)
def test_one_copy_of_the_numbers_finds_the_same_rows(job: MakeJob, loop: str, made: str) -> None:
    pytest.importorskip("torch")
    repaired = job({"train.py": PROGRAM.format(loop=loop)})
    fixes, before, after = repaired.repaired("train.py", "GPU305")
    assert fixes and made in repaired.text("train.py")
    assert after == before and "tensor(" in before


def test_a_list_of_moved_tensors_has_no_numbers_to_copy(job: MakeJob) -> None:
    text = PROGRAM.format(loop=ZIPPED).replace("y.to(device)\n", "[one.to(device) for one in y]\n")
    text = text.replace("criterion(output, targets)", "criterion(output, torch.stack(targets))")
    assert not any("bank[target]" in found.finding.message for found in job({"train.py": text}).scan("GPU305"))
