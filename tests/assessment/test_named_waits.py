"""The places that a finding counts are those that it names."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gpulint.cli import main

HEAD = """\
import torch
from torch.utils.data import DataLoader
from net import Net
model = Net().cuda()
total, top, low, mean = 0.0, 0.0, 0.0, 0.0
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for images, labels in DataLoader(images_of("train"), batch_size=256, num_workers=8):
    output = model(images.cuda())
    loss = torch.nn.functional.cross_entropy(output, labels.cuda())
"""
READS = """\
    total += loss.item()
    top += output.max().item()
    low += output.min().item()
    mean += output.mean().item()
"""
END = """\
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def named(folder: Path, capsys: pytest.CaptureFixture[str], body: str) -> list[tuple[int, str, str]]:
    """Line, level and impact of the waits."""
    (folder / "net.py").write_text("import torch\nclass Net(torch.nn.Module):\n    pass\n")
    (folder / "train.py").write_text(HEAD + body + "print(total, top, low, mean)\n")
    main(["scan", "--no-cache", "--impact", "low", "--select", "GPU305", "--output-format", "json", str(folder)])
    found = json.loads(capsys.readouterr().out)
    return [(one["line"], one["impact"]["level"], one["impact"]["basis"]) for one in found]


@pytest.mark.parametrize("last", ["    torch.cuda.synchronize()\n", ""])
def test_a_count_names_its_other_places(tmp_path: Path, capsys: pytest.CaptureFixture[str], last: str) -> None:
    found = named(tmp_path, capsys, READS + END + last)
    counted = [(line, basis) for line, level, basis in found if level != "low"]
    for line, basis in counted:
        count = int(basis.partition(" waits")[0].rpartition(" ")[2])
        lines = {int(number) for number in re.findall(r"\d+", re.sub(r"\d+ waits\b", "", basis))}
        assert len(lines | {line}) == count
    assert counted
