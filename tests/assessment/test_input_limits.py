"""Waits that only inputs above a limit bring about."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import impacts

NET = """\
from torch import nn


class Net(nn.Module):
    def __init__(self, longest=100):
        super().__init__()
        self.longest = longest

    def forward(self, frames):
        n, t, h, w = frames.size()
        {kept}
        outputs = []
        if {test}:
            for part in self.layer(frames):
                outputs.append(part.cpu())
                outputs.append(part.mean().cpu())
                outputs.append(part.sum().item())
        return self.head(frames)
"""
TRAIN = """\
import torch
from net import Net

model = Net().cuda()
for frames, labels in loader:
    loss = criterion(model(frames.cuda()), labels.cuda())
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("kept", "test", "level"),
    [
        ("pass", "frames.shape[1] > self.longest", "low"),
        ("self.cached = t > self.longest", "self.cached", "low"),
        ("self.cached = True if t > self.longest else False", "self.cached", "low"),
        ("long = 256 < frames.size(1)", "long", "low"),
        ("pass", "frames.numel() > max_elements", "low"),
        ("pass", "len(frames) > 1", "medium"),
        ("pass", "n > 0", "medium"),
    ],
)
def test_what_only_large_inputs_need_costs_little(tmp_path: Path, kept: str, test: str, level: str) -> None:
    files = {"net.py": NET.format(kept=kept, test=test), "train.py": TRAIN}
    leading = max(impacts(tmp_path, files)["GPU305"], key=lambda impact: impact.level)
    assert str(leading.level) == level
    assert ("only for inputs above a limit" in leading.basis) == (level == "low")


@pytest.mark.parametrize(
    ("kept", "test"), [("self.cached = t < self.longest", "self.cached"), ("pass", "frames.mean() > 256")]
)
def test_what_small_inputs_or_their_values_need_is_for_no_limit(tmp_path: Path, kept: str, test: str) -> None:
    files = {"net.py": NET.format(kept=kept, test=test), "train.py": TRAIN}
    bases = [impact.basis for impact in impacts(tmp_path, files)["GPU305"]]
    assert bases
    assert not any("only for inputs above a limit" in basis for basis in bases)
