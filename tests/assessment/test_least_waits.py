"""Counts of waits are lower bounds where a step calls what analysis does not see, and settings that are on by default."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.test_waits_of_a_step import impacts

LOOP = """\
import torch
from torch import nn
from parts import Parts

model = nn.Linear(8, 8).cuda()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
parts = Parts({})
total, highest = 0.0, 0.0
for images, labels in loader:
    output = model(images.cuda())
    loss = criterion(output, labels.cuda())
    MORE
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.item()
    highest += output.max().item()
print(total, highest)
"""
PARTS = """\
class Parts:
    def __init__(self, config):
        self.smooths = bool(config.get("smooths", DEFAULT))

    def check(self, output):
        return output.min().item()

    def smooth(self, output):
        if not self.smooths:
            return output
        last = 0.0
        for row, value in enumerate(output.view(-1)):
            last = 0.9 * last + 0.1 * value.item()
            output[row] = last
        return output

    def scale(self, output):
        return 2 * output
"""


def scanned(folder: Path, capsys: pytest.CaptureFixture[str], more: str, default: str = "True") -> list[dict[str, str]]:
    (folder / "train.py").write_text(LOOP.replace("MORE", more))
    (folder / "parts.py").write_text(PARTS.replace("DEFAULT", default))
    return impacts(folder, capsys, "train.py") + impacts(folder, capsys, "parts.py")


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("pass", "every step, 2 waits"),
        ("loss = parts.scale(loss)", "every step, 2 waits"),
        ("lowest = parts.check(output)", "every step, at least 2 waits"),
        ("unknown(output)", "every step, at least 2 waits"),
    ],
)
def test_counts_are_exact_only_where_all_is_seen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: str, told: str
) -> None:
    found = [one["basis"] for one in scanned(tmp_path, capsys, more)]
    assert any(one.startswith(told) for one in found), found


@pytest.mark.parametrize(("default", "may_never_hold"), [("True", False), ("False", True)])
def test_a_setting_that_is_on_by_default_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], default: str, may_never_hold: bool
) -> None:
    (tmp_path / "a.yaml").write_text("curves:\n  smooths: true\n")
    (tmp_path / "b.yaml").write_text("points:\n  smooths: false\n")
    scanned(tmp_path, capsys, "loss = criterion(parts.smooth(output), labels.cuda())", default)
    (found,) = impacts(tmp_path, capsys, "parts.py")
    assert ("under a condition that may never hold" in found["basis"]) is may_never_hold
