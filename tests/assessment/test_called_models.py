"""Programs that call a model with arguments that its ``forward`` does not take."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import bases

SAYS = "raises an error"
PROGRAM = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

from net import Graph, Plain


def main():
    model = {made}
{moved}    model.eval()
    total = 0
    for batch in DataLoader(data, batch_size=64, num_workers=4, pin_memory=True):
        images, edges = batch
        total += model({passed}).mean().item()
    print(total)


if __name__ == "__main__":
    main()
"""
NET = """\
from torch import nn


class Graph(nn.Module):
    def forward(self, batch):
        return batch.x


class Plain:
    def to(self, device):
        return Graph()

    def __call__(self, batch, edges):
        return batch.x
"""
MOVED = "    model = model.to('cuda')\n"


@pytest.mark.parametrize(
    ("made", "moved", "passed", "fails"),
    [
        ("Graph()", "", "images.cuda(), edges.cuda()", True),
        ("Graph().cuda()", "", "images.cuda(), edges.cuda(), [0]", True),
        ("Graph().to('cuda').eval()", "", "images.cuda(), edges=edges.cuda()", True),
        ("Graph()", MOVED, "images.cuda(), edges.cuda()", True),
        ("Graph()", "    model = model.cuda()\n    model = model.half()\n", "images.cuda(), edges.cuda()", True),
        ("Graph()", MOVED, "images.cuda()", False),
        ("Graph()", "    model = nn.Linear(2, 2).to('cuda')\n", "images.cuda(), edges.cuda()", False),
        ("Graph()", "    model = wrap(model)\n", "images.cuda(), edges.cuda()", False),
        ("Plain().to('cuda')", "", "images.cuda(), edges.cuda()", False),
        ("torch.load('model.pt')", MOVED, "images.cuda(), edges.cuda()", False),
    ],
)
def test_a_call_that_forward_does_not_take(tmp_path: Path, made: str, moved: str, passed: str, fails: bool) -> None:
    program = PROGRAM.format(made=made, moved=moved, passed=passed)
    found = bases(tmp_path, {"net.py": NET, "train.py": program}, "GPU203")
    assert found and all((SAYS in one) is fails for one in found)
