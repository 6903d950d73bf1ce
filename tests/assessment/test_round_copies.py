"""Copies to the GPU in the rounds of an inner loop make each of them wait, whatever becomes of its reads."""

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


def train(loader, model, optimizer):
    total = 0
    for batch in loader:
        {before}
        optimizer.zero_grad()
        outputs = model(batch["image"].to(device))
        masks, parts = batch["masks"], 0
        for index in range(len(masks)):
            {each}
            part = F.binary_cross_entropy_with_logits(outputs[index], mask)
            total += part.item()
            parts = parts + part
        parts.backward()
        optimizer.step()
    return total


model = Net().to(device)
print(train(DataLoader(photos("train"), batch_size=8), model, torch.optim.Adam(model.parameters())))
"""
COPY = "mask = masks[index].to(device)"


def found_in(
    folder: Path, capsys: pytest.CaptureFixture[str], each: str, before: str = "pass"
) -> tuple[str, str, bool]:
    """Level and impact of the read of the inner loop, and whether it has a fix."""
    (folder / "net.py").write_text("import torch\nclass Net(torch.nn.Module):\n    pass\n")
    (folder / "train.py").write_text(CODE.format(each=each.replace("\n", "\n" + 12 * " "), before=before))
    main(["scan", "--no-cache", "--impact", "low", "--select", "GPU305", "--output-format", "json", str(folder)])
    (found,) = (one for one in json.loads(capsys.readouterr().out) if "part.item()" in one["message"])
    return found["impact"]["level"], found["impact"]["basis"], found["fix"] is not None


@pytest.mark.parametrize("each", [COPY, "mask = masks[index].float().cuda()"])
def test_a_copy_in_each_round_waits_as_the_read_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], each: str
) -> None:
    level, basis, is_fixed = found_in(tmp_path, capsys, each)
    assert (level, is_fixed) == ("low", False)
    assert "line 17 waits in any case (`masks[...]" in basis


@pytest.mark.parametrize(
    ("each", "before"),
    [
        ("mask = masks[index]", 'batch["masks"] = batch["masks"].to(device)'),
        ("mask = masks[index].to(device, non_blocking=True)", "pass"),
        (f"mask = F.relu(outputs[index])\nif index % 50 == 0:\n    {COPY}", "pass"),
        ("mask = torch.zeros_like(outputs[index]).to(device)", "pass"),
    ],
)
def test_without_one_the_read_stays_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], each: str, before: str
) -> None:
    level, basis, is_fixed = found_in(tmp_path, capsys, each, before)
    assert level != "low" and "in any case" not in basis and is_fixed


def test_a_copy_for_the_model_in_each_round_is_that_of_a_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, basis, is_fixed = found_in(tmp_path, capsys, f"{COPY}\noutputs = model(mask)")
    assert "in any case" not in basis and is_fixed
