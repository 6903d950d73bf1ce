"""Rows that a step draws one by one and stacks are those that it draws together: programs run before and after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fixes.training_jobs import check_declined

MakeJob = Callable[..., Any]

PROGRAM = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
train_loader = DataLoader(TensorDataset(torch.randn(64, 16), torch.randn(64, 16)), batch_size=16)


class Matcher(nn.Module):
    def __init__(self):
        super().__init__()
        self.images, self.texts, self.head = nn.Linear(16, 8), nn.Linear(16, 8), nn.Linear(16, 1)

    def forward(self, images, texts):
        images, texts = self.images(images), self.texts(texts)
        bs = images.size(0)
        with torch.no_grad():
            weights = nn.functional.one_hot((images @ texts.t()).argmax(1), bs).float()
        texts_neg = []
        sizes = []
        for b in range(bs):
            neg_idx = torch.multinomial(weights[b], 1).item()
            texts_neg.append(texts[neg_idx])
            sizes.append(texts[neg_idx])
        texts_neg = torch.stack(texts_neg, dim=0)
        sizes = torch.stack(sizes)
        return self.head(torch.cat([images, texts_neg], dim=1)).square().mean() + sizes.square().mean()


model = Matcher().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for images, texts in train_loader:
    loss = model(images.to(device), texts.to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{sum(p.double().abs().sum() for p in model.parameters()):.5f}")
"""


def test_rows_are_the_same(job: MakeJob) -> None:
    pytest.importorskip("torch")
    made = job({"train.py": PROGRAM})
    fixes, before, after = made.repaired("train.py", "GPU305")
    assert fixes == 1
    assert "neg_idx = torch.multinomial(weights, 1).squeeze(1)\n        texts_neg = texts[neg_idx]" in made.text(
        "train.py"
    )
    assert after == before


CASES = {
    "a list of tensors": ("bs = images.size(0)", "bs = images.size(0)\n        texts = [*texts]"),
    "tensors of a list": ("bs = images.size(0)", "bs = images.size(0)\n        texts = list(texts)"),
    "another use of the list": (
        "        sizes = torch.stack(sizes)",
        "        sizes = torch.stack(sizes or [texts[0]])",
    ),
    "the list is stacked on demand": (
        "        sizes = torch.stack(sizes)",
        "        if bs > 2:\n            sizes = torch.stack(sizes)",
    ),
    "the list has a first row": ("sizes = []", "sizes = [texts[0]]"),
    "another axis": ("torch.stack(sizes)", "torch.stack(sizes, dim=1)"),
    "two rows": ("sizes.append(texts[neg_idx])", "sizes.append(texts[[neg_idx, b]])"),
    "the row itself": ("sizes.append(texts[neg_idx])", "sizes.append(texts[b] * neg_idx)"),
    "the last index": ("return self.head", "self.last = neg_idx\n        return self.head"),
    "weights that change": (
        "            sizes.append(texts[neg_idx])",
        "            sizes.append(texts[neg_idx])\n            weights[:, neg_idx] += 1e-4",
    ),
    "a comment": ("            sizes.append", "            # once more\n            sizes.append"),
    "every second row": ("range(bs)", "range(0, bs, 2)"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_stays(case: tuple[str, str], job: MakeJob) -> None:
    old, new = case
    assert old in PROGRAM
    check_declined(job, "GPU305", {"train.py": PROGRAM.replace(old, new)}, "")
