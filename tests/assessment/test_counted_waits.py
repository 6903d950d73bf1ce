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
