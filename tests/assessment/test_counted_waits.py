"""How many waits a step has, by what a finding says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gpulint.cli import main

STEP = """\
import torch
from torch.utils.data import DataLoader
from tqdm import tqdm

bar = tqdm(DataLoader(images, batch_size=256, num_workers=8))
for x, y in bar:
    output = model(x.cuda())
    loss = torch.nn.functional.cross_entropy(output, y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    gap = output.max() - output.min()
"""


def waits(folder: Path, capsys: pytest.CaptureFixture[str], text: str) -> int:
    """Return how many waits the first finding counts."""
    (folder / "train.py").write_text(text)
    main(["scan", "--no-cache", "--impact", "low", "--select", "GPU305", "--output-format", "json", str(folder)])
    told = json.loads(capsys.readouterr().out)[0]["impact"]["basis"]
    return int(count[1]) if (count := re.search(r"(\d{1,9}) waits", told)) else 1


SHOWN = {
    "numbers in texts": ('bar.set_postfix({"loss": f"{float(loss):.3f}", "gap": f"{float(gap):.3f}"})', 2),
    "numbers": ("bar.set_postfix(loss=float(loss), gap=float(gap))", 2),
    "numbers that are rounded": ("bar.set_postfix(loss=round(float(loss), 3), gap=round(gap.item(), 3))", 2),
    "a number and a tensor": ('print(f"{float(loss):.3f}", gap)', 2),
    "a number": ("print(float(loss))", 1),
    "a tensor": ('bar.set_postfix({"loss": f"{loss:.3f}"})', 1),
}


@pytest.mark.parametrize(("shown", "count"), SHOWN.values(), ids=SHOWN)
def test_what_a_bar_shows_counts_where_it_is_a_tensor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], shown: str, count: int
) -> None:
    assert waits(tmp_path, capsys, f"{STEP}    {shown}\n") == count


HELPER = """\
import torch
from torch.utils.data import DataLoader


def bright(rows):
    mask = rows > 0.5
    result = rows.clone()
    WRITE
    return result


for x, y in DataLoader(images, batch_size=256, num_workers=8):
    x, y = x.cuda(), y.cuda()
    CALLS
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.item()
print(total)
"""
ONE = "loss = criterion(model(bright(x)), y)"
SCALED = "result[mask] = 2 * rows[mask]"
CALLED = {
    "one call": (ONE, "result = rows[mask]", 2),
    "three calls": ("loss = criterion(bright(model(bright(x))), bright(y))", "result = rows[mask]", 4),
    "a masked write": (ONE, SCALED, 3),
    "three calls with a masked write": ("loss = criterion(bright(model(bright(x))), bright(y))", SCALED, 7),
    "two reads and a write": (ONE, "result[mask] = rows[mask] + rows[mask]", 4),
    "a number for a mask": (ONE, "result[mask] = rows[mask].mean().item()", 3),
    "a call in a branch": (f"{ONE}\n    if full:\n        loss = loss + bright(y).mean()", SCALED, 3),
    "a call in a loop": (f"{ONE}\n    for _ in scales:\n        loss = loss + bright(y).mean()", SCALED, 3),
}


@pytest.mark.parametrize(("calls", "write", "count"), CALLED.values(), ids=CALLED)
def test_calls_of_a_helper_and_masked_writes_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], calls: str, write: str, count: int
) -> None:
    assert waits(tmp_path, capsys, HELPER.replace("CALLS", calls).replace("WRITE", write)) == count


def test_only_the_write_of_a_number_fills_a_mask_without_a_wait(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = HELPER.replace("CALLS", ONE)
    assert waits(tmp_path, capsys, text.replace("WRITE", "result[mask] = 0")) == 1
