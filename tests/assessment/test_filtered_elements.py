"""Comprehensions that compare the elements of a tensor on the GPU one by one wait for each."""

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
types = {types}


def train(loader, model, optimizer):
    total, top, low, mean = 0, 0, 0, 0
    for index, images, labels in loader:
        kinds = types[index]
        {picked}
        optimizer.zero_grad()
        outputs = model(images.to(device))
        loss = F.cross_entropy(outputs[picked], labels.to(device)[picked])
        loss.backward()
        optimizer.step()
        total += loss.item()
        top += outputs.max().item()
        low += outputs.min().item()
        mean += outputs.mean().item()
    return total, top, low, mean


model = Net().to(device)
print(train(DataLoader(photos("train"), batch_size=64), model, torch.optim.Adam(model.parameters())))
"""
ON_GPU = "torch.tensor(read_types()).view(-1).to(device)"


def found_in(folder: Path, capsys: pytest.CaptureFixture[str], picked: str, types: str) -> dict[int, tuple[str, bool]]:
    """Level of the waits by line, and whether they have fixes."""
    (folder / "net.py").write_text("import torch\nclass Net(torch.nn.Module):\n    pass\n")
    (folder / "train.py").write_text(CODE.format(picked=picked, types=types))
    main(["scan", "--no-cache", "--impact", "low", "--select", "GPU305", "--output-format", "json", str(folder)])
    found = json.loads(capsys.readouterr().out)
    return {one["line"]: (one["impact"]["level"], one["fix"] is not None) for one in found}


@pytest.mark.parametrize(
    "picked",
    [
        "picked = [i for i in range(len(kinds)) if kinds[i] == 0]",
        "picked = [i for i, kind in enumerate(kinds) if kind == 0]",
    ],
)
def test_each_comparison_of_an_element_waits(tmp_path: Path, capsys: pytest.CaptureFixture[str], picked: str) -> None:
    found = found_in(tmp_path, capsys, picked, ON_GPU)
    assert list(found) == [14, 20, 21, 22, 23]
    assert not any(is_fixed for _, is_fixed in found.values())
    assert {found[line][0] for line in (20, 21, 22, 23)} == {"low"}


@pytest.mark.parametrize(
    ("picked", "types"),
    [
        ("picked = [i for i in range(len(kinds)) if kinds[i] == 0]", "torch.tensor(read_types()).view(-1)"),
        ("picked = [i for i in range(len(kinds)) if kinds.shape[0] > i]", ON_GPU),
        ("picked = [i for i in range(len(kinds)) if i > 0]", ON_GPU),
    ],
)
def test_reads_beside_those_of_numbers_stay_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], picked: str, types: str
) -> None:
    found = found_in(tmp_path, capsys, picked, types)
    assert list(found) == [20, 21, 22, 23]
    assert all(is_fixed for _, is_fixed in found.values())
    assert any(level != "low" for level, _ in found.values())
