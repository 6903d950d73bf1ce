"""What a mask picks on the GPU makes the host wait, so that reading it later saves nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import bases

TRAIN = """\
import torch
from torch.utils.data import DataLoader

from bert import Bert, Texts

loader = DataLoader(Texts(), batch_size=64, num_workers=8)
model = Bert().cuda()
criterion = torch.nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters())
for epoch in range(90):
    count, correct, total = 0, 0, 0.0
    for data in loader:
        data = [one.cuda() for one in data]
        ids, labels = data
        words, following = model.forward(ids)
        loss = criterion(words, labels)
        loss.backward()
        optimizer.step()
        guesses = words.argmax(-1).reshape(-1)
        truth = labels.reshape(-1)
        known = truth != 0
        count += known.sum().item()
        correct += {correct}
        total += loss.item()
    print(total / count, correct / count)
"""


@pytest.mark.parametrize(
    ("correct", "waits"),
    [
        ("(guesses[known] == truth[known]).sum().item()", 5),
        ("((guesses == truth) & known).sum().item()", 3),
        ("(guesses[:10] == truth[:10]).sum().item()", 3),
        ("(guesses == truth)[known].sum().item()", 4),
    ],
)
def test_picking_by_a_mask_waits(tmp_path: Path, correct: str, waits: int) -> None:
    files = {
        "bert.py": "from torch.nn import Linear as Bert\nfrom data import Texts\n",
        "train.py": TRAIN.format(correct=correct),
    }
    found = bases(tmp_path, files, "GPU305")
    assert found
    assert all(f" {waits} waits" in one for one in found), found
