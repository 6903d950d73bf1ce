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
    "the rounds read what stays on the GPU": (
        "= float(score)",
        "= float(score)\n            keep(lengths(y)[b].item())",
    ),
    "the tensor is used as a whole": ("        for c, score", "        keep(preds)\n        for c, score"),
}


@pytest.mark.parametrize(("old", "new"), CASES.values(), ids=CASES)
def test_other_uses_are_left_alone(job: MakeJob, old: str, new: str) -> None:
    made = job({"train.py": PROGRAM.replace(old, new)})
    made.repair("GPU305")
    assert "preds_cpu" not in made.text("train.py")


PARTS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from losses import DetectionLoss

loader = DataLoader(TensorDataset(torch.randn(48, 6), torch.zeros(48).long()), batch_size=16)
model = nn.Linear(6, 3).cuda()
criterion = DetectionLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
table = {}

for step, (x, y) in enumerate(loader):
    loss_parts = criterion(model(x.cuda()), y.cuda())
    loss = sum(loss_parts)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    for i in range(3):
        table[step, i] = float(loss_parts[i])
"""
UNKNOWN = {
    "what a call returns may be a tuple": ("table", "table"),
    "keys that are made of text": ("float(loss_parts[i])", 'loss_parts[f"box_{i}"].item()'),
    "keys that a loop goes through": ("for i in range(3)", "for i in criterion.weights"),
    "a name of a part": ("float(loss_parts[i])", 'float(loss_parts["box"][i])'),
    "a table whose tensors are moved": ("model(x.cuda()), y.cuda())", "model(x.cuda()), y.cuda()).to(0)"),
    "a list of tensors that is gone through": ("for i in range(3):", "for i, part in enumerate(loss_parts):"),
}


@pytest.mark.parametrize(("old", "new"), UNKNOWN.values(), ids=UNKNOWN)
def test_what_may_be_a_table_is_not_copied(job: MakeJob, old: str, new: str) -> None:
    text = PARTS.replace(old, new)
    if ".to(0)" in new:
        text = text.replace("loss_parts[i]", "loss_parts[str(i)]")
    if "enumerate(loss_parts)" in new:
        text = text.replace("float(loss_parts[i])", "part.cpu().numpy()")
    made = job({"train.py": text})
    made.repair("GPU305")
    assert ".cpu()\n" not in made.text("train.py") and "loss_parts.cpu()" not in made.text("train.py")


KNOWN = {
    "its shape is read": ("range(3)", "range(loss_parts.shape[0])"),
    "only a tensor has rows and columns": ("sum(loss_parts)", "loss_parts[:, 0].sum()"),
    "a method of tensors made it": ("y.cuda())\n", "y.cuda()).mean(0)\n"),
}


@pytest.mark.parametrize(("old", "new"), KNOWN.values(), ids=KNOWN)
def test_what_is_a_tensor_is_copied(job: MakeJob, old: str, new: str) -> None:
    made = job({"train.py": PARTS.replace(old, new, 1)})
    made.repair("GPU305")
    assert "float(loss_parts_cpu[i])" in made.text("train.py") or "loss_parts.tolist()" in made.text("train.py")


INVARIANT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
train_loader = DataLoader(TensorDataset(torch.randn(8, 2, 6), torch.rand(8, 3) + 1), batch_size=4)


class Bands(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, series, scales: torch.Tensor):
        batch_size, _, length = series.shape
        num_bands = scales.shape[1]
        found = torch.zeros(batch_size, num_bands, length, device=device)
        # each band by itself
        for b in range(batch_size):
            one = series[b]
            for s in range(num_bands):
                scale = scales[b, s].item()

                try:
                    # the transform needs arrays
                    signal = one.detach().cpu().numpy()

                    found[b, s] = torch.from_numpy(signal.sum(0) * scale).to(device)
                except ValueError:
                    found[b, s] = 0
        return found * self.weight.unsqueeze(1)


model = Bands().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
sums = []
for series, scales in train_loader:
    output = model(series.to(device), scales.to(device))
    optimizer.zero_grad()
    output.mean().backward()
    optimizer.step()
    sums.append(output.detach())
print([one.tolist() for one in sums])
"""


def test_copies_that_rounds_repeat_are_made_once(job: MakeJob) -> None:
    pytest.importorskip("torch")
    made = job({"train.py": INVARIANT})
    fixes, before, after = made.repaired("train.py", "GPU305")
    text = made.text("train.py")
    assert fixes == 2
    assert "        scales_list = scales.tolist()\n        # each band by itself\n        for b in range" in text
    moved = "            # the transform needs arrays\n            signal = one.detach().cpu().numpy()\n"
    assert f"{moved}            for s in range(num_bands):\n                scale = scales_list[b][s]\n" in text
    assert "                try:\n                    found[b, s]" in text
    assert after == before


CHANGES = {
    "the loop changes the copy": (
        "                    found[b, s] = torch",
        "                    signal[0] = 0\n                    found[b, s] = torch",
    ),
    "the loop changes the tensor": ("                try:", "                one.mul_(2)\n                try:"),
    "a round may leave it out": (
        "                try:",
        "                if scale > 2:\n                    continue\n                try:",
    ),
    "another round reads the last one": (
        "                try:",
        "                last = signal if s else None\n                try:",
    ),
}


@pytest.mark.parametrize(("old", "new"), CHANGES.values(), ids=CHANGES)
def test_copies_that_differ_stay(job: MakeJob, old: str, new: str) -> None:
    made = job({"train.py": INVARIANT.replace(old, new)})
    made.repaired("train.py", "GPU305")
    assert "                    signal = one.detach().cpu().numpy()" in made.text("train.py")


CALLED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from reading import texts_of

loader = DataLoader(TensorDataset(torch.randn(48, 6), torch.zeros(48).long()), batch_size=16)
model = nn.Linear(6, 3).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
rows = []

for x, y in loader:
    scores = model(x.cuda())
    loss = nn.functional.cross_entropy(scores, y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    rows += texts_of(scores.reshape(4, 4, 3).argmax(2))
"""
READING = """\
import torch


def texts_of(found):
    texts = []
    for i in range(found.size(0)):
        row = found[i].tolist()
        texts.append("".join(map(str, row)))
    return texts
"""
OF_TORCH = {
    "its size is asked for": ("", ""),
    "its parts are copied": ("found.size(0)", "found.shape[0]"),
    "it is asked for its dimensions": ("found.size(0)", "16 if found.dim() > 1 else 1"),
}
OF_ANY = {
    "its shape says nothing of the library": ("found.size(0)", "found.shape[0]"),
    "a list of tensors": ("i in range(found.size(0)):\n        row = found[i]", "one in found:\n        row = one"),
    "a list of tensors of one row each": ("range(found.size(0))", "range(len(found))"),
}


@pytest.mark.parametrize(("old", "new"), OF_TORCH.values(), ids=OF_TORCH)
def test_a_called_function_copies_what_is_a_tensor_by_its_methods(job: MakeJob, old: str, new: str) -> None:
    text = READING.replace(old, new)
    if "shape" in new:
        text = text.replace("found[i].tolist()", "found[i].cpu().numpy()")
    made = job({"train.py": CALLED, "reading.py": text})
    made.repair("GPU305")
    text = made.text("reading.py")
    assert "    found_cpu = found.cpu()\n    for i in range(" in text
    assert "row = found_cpu[i].tolist()" in text or "row = found_cpu[i].numpy()" in text


@pytest.mark.parametrize(("old", "new"), OF_ANY.values(), ids=OF_ANY)
def test_a_called_function_says_where_to_copy_what_may_be_no_tensor(job: MakeJob, old: str, new: str) -> None:
    made = job({"train.py": CALLED, "reading.py": READING.replace(old, new)})
    assert "each round of the loop in line 6 reads it" in made.refusal("GPU305")


INDEXED = """\
import torch
from torch.utils.data import DataLoader

loader = DataLoader(data, batch_size=8)
model = torch.nn.Linear(8, 2).cuda()
for x, y in loader:
    x, y = x.cuda(), y.cuda()
    output = model(x)
    loss = output.mean()
    loss.backward()
    optimizer.step()
    shares = output.detach().softmax(-1).mean(0)
    found = output.argmax(1)
    order = [1, 0] * len(x)
    for i in range(x.size(0)):
        {index}
        note(shares[{at}].mean().item())
"""


@pytest.mark.parametrize(
    ("index", "at", "copies"),
    [
        ("at = i", "found[i]", False),
        ("at = y[i]", "at", False),
        ("at = i", "i, y[i] + 1", False),
        ("at = order[i]", "at", True),
        ("at = i // 2", "at", True),
    ],
)
def test_a_copy_is_not_indexed_by_elements_on_the_gpu(job: MakeJob, index: str, at: str, copies: bool) -> None:
    made = job({"train.py": INDEXED.format(index=index, at=at)})
    made.repair("GPU305")
    assert ("shares_cpu = shares.cpu()" in made.text("train.py")) is copies
