"""How often a debugger is said to stop a program."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import impacts

LOADED = """\
import torch
model = torch.nn.Linear(2, 2).cuda()
"""
STEP = "model(torch.ones(2, 2).cuda()).sum().backward()\n"


@pytest.mark.parametrize(
    ("body", "often"),
    [
        ("model.load_state_dict(torch.load('a.pt'))\nbreakpoint()\nmodel.eval()\n", "once per run"),
        ("def main():\n    breakpoint()\n    model.eval()\nmain()\nprint(1)\n", "once per run"),
        ("for name in names:\n    breakpoint()\n    model.load(name)\n", "each time the program gets there"),
        (
            "def load(name):\n    breakpoint()\n    return name\nload('a')\nload('b')\n",
            "each time the program gets there",
        ),
        (
            "def load(name):\n    breakpoint()\n    return name\nfor name in names:\n    load(name)\n",
            "each time the program gets there",
        ),
        (
            "class Policy(torch.nn.Module):\n    def act(self, x):\n        breakpoint()\n        return model(x)\n"
            "Policy().act(x)\n",
            "each time the program gets there",
        ),
    ],
)
def test_a_stop_is_once_per_run_only_where_it_is_reached_once(tmp_path: Path, body: str, often: str) -> None:
    found = impacts(tmp_path, {"train.py": LOADED + body + STEP})["GPU102"]
    assert [one.basis.split(", ")[0] for one in found] == [often]
