"""Slices and ranges that end at a tensor on the GPU make the host wait for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpulint.cli import main

CODE = """\
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
from net import Net

device = torch.device("cuda")


def score(outputs, labels, lengths):
    loss, hits, start = 0, 0, 0
    for output, label, length in zip(outputs, labels, lengths):
        {bound}
        loss += F.cross_entropy(output, label)
        hits += output.argmax(1).eq(label).sum().item()
    return loss, hits


def train(loader, model, optimizer):
    correct = 0
    for batch in loader:
        optimizer.zero_grad()
        outputs = model(batch["map"].to(device))
        loss, hits = score(outputs, batch["labels"].to(device), {lengths})
        loss.backward()
        optimizer.step()
        correct += hits
    return correct


model = Net().to(device)
print(train(DataLoader(maps("train"), batch_size=64), model, torch.optim.Adam(model.parameters())))
"""
ON_GPU = 'batch["length"].to(device)'


def found_in(folder: Path, capsys: pytest.CaptureFixture[str], bound: str, lengths: str) -> tuple[str, str, bool]:
    """Level and impact of the read of the inner loop, and whether it has a fix."""
    (folder / "net.py").write_text("import torch\nclass Net(torch.nn.Module):\n    pass\n")
    (folder / "train.py").write_text(CODE.format(bound=bound, lengths=lengths))
    main(["scan", "--no-cache", "--impact", "low", "--select", "GPU305", "--output-format", "json", str(folder)])
    (found,) = (one for one in json.loads(capsys.readouterr().out) if one["line"] == 14)
    return found["impact"]["level"], found["impact"]["basis"], found["fix"] is not None


@pytest.mark.parametrize(
    ("bound", "what"),
    [
        ("output, label = output[:length], label[:length]", "`output[:length]`"),
        ("output = output[: length - 1]", "`output[:...]`"),
        ("output, start = output[start : start + 8], start + length", "`output[start:...]`"),
        ("for _ in range(length): output = F.relu(output)", "`range(length)`"),
        ("output = output + torch.zeros(length, 8, device=device)", "`torch.zeros(...)`"),
    ],
)
def test_a_slice_that_ends_at_a_tensor_waits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bound: str, what: str
) -> None:
    level, basis, is_fixed = found_in(tmp_path, capsys, bound, ON_GPU)
    assert (level, is_fixed) == ("low", False)
    assert f"line 12 waits in any case ({what})" in basis


@pytest.mark.parametrize(
    ("bound", "lengths"),
    [
        ("output, label = output[:length], label[:length]", 'batch["length"].tolist()'),
        ("output, label = output[:length], label[:length]", ON_GPU + ".tolist()"),
        ("output, label = output[: len(label)], label", ON_GPU),
        ("output, label = output[: label.shape[0]], label", ON_GPU),
        ("output = output * length", ON_GPU),
    ],
)
def test_one_that_ends_at_a_number_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bound: str, lengths: str
) -> None:
    level, basis, is_fixed = found_in(tmp_path, capsys, bound, lengths)
    assert level != "low" and "in any case" not in basis and is_fixed
