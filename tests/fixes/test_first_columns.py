"""Metrics read the first columns of a sorted tensor: a fix copies only these to the host, or nothing."""

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
model = nn.Linear(6, 9).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
criterion = nn.CrossEntropyLoss()
found = []
{above}

for step, (x, y) in enumerate(train_loader):
    x, y = x.to(device), y.to(device)
    output = model(x)
    loss = criterion(output, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    ranked = output.sort(descending=True)[1]
    for k in {counts}:
        for top in {read}:
            found.append(top)
print(found)
"""
READ = "ranked[:, :k].tolist()"
COPIES = {
    "a list": ("ks = [1, 3, 5]", "ks", READ, "ranked_cpu = ranked[:, : max(ks)].cpu()"),
    "a tuple in the loop": ("", "(1, 3)", READ, "ranked_cpu = ranked[:, :3].cpu()"),
    "a number": ("", "range(2)", "ranked[:, :4].tolist()", "ranked_cpu = ranked[:, :4].cpu()"),
    "the whole tensor": ("", "range(2)", "ranked[:, k:].tolist()", "ranked_cpu = ranked.cpu()"),
}


@pytest.mark.parametrize(("above", "counts", "read", "copied"), COPIES.values(), ids=COPIES)
def test_the_columns_that_are_read_are_copied(job: MakeJob, above: str, counts: str, read: str, copied: str) -> None:
    pytest.importorskip("torch")
    made = job({"train.py": PROGRAM.format(above=above, counts=counts, read=read)})
    fixes, before, after = made.repaired("train.py", "GPU305")
    assert fixes and copied in made.text("train.py")
    assert after == before


@pytest.mark.parametrize("counts", ["load_counts()", "[1, top]", "range(1, 4)"])
def test_a_sorted_tensor_is_not_copied_for_columns_of_unknown_number(job: MakeJob, counts: str) -> None:
    made = job({"train.py": PROGRAM.format(above="", counts=counts, read=READ)})
    made.repair("GPU305")
    assert "ranked_cpu" not in made.text("train.py")
