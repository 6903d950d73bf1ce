"""How often a debugger is said to stop a program."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import IN_USE, impacts

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


_BASE = """\
class Base(torch.nn.Module):
    def __init__(self):
        super(Base, self).__init__()

    def forward(self, x):
        breakpoint()
        return model(x)


class Heir(Base):
    def forward(self, x):
        return model(x)

    def twice(self, x):
        return {twice}
"""


@pytest.mark.parametrize(
    ("twice", "use", "level"),
    [
        ("self(self(x))", "if isinstance(net, (list, Base)):\n    net.eval()\n", "low"),
        ("self(self(x))", "def start(one: Base | None) -> Base:\n    return one\n", "low"),
        ("self(self(x))", "print(issubclass(type(net), Base))\n", "low"),
        ("self(self(x))", "nets = {'plain': Base, 'new': Heir}\n", "medium"),
        ("self(self(x))", "isinstance(net, type(Base()))\n", "medium"),
        ("super().forward(x)", "", "medium"),
        ("super(Heir, self).forward(x)", "", "medium"),
    ],
)
def test_a_forward_that_all_heirs_replace_stops_nothing(tmp_path: Path, twice: str, use: str, level: str) -> None:
    program = f"{LOADED}{_BASE.format(twice=twice)}net = Heir()\n{use}net(torch.ones(2, 2).cuda()).sum().backward()\n"
    (found,) = impacts(tmp_path, {"train.py": program})["GPU102"]
    assert str(found.level) == level


SAMPLES = """\
import torch
from net import Net
model = Net().cuda()
model.load_state_dict(torch.load("net.pt"))
with torch.no_grad():
    for x, y in loader:
        samples = model(x.cuda())
        breakpoint()
        print(samples.mean())
"""
NET = "import torch\n\n\nclass Net(torch.nn.Linear):\n    pass\n"


@pytest.mark.parametrize(
    ("place", "note", "text", "level"),
    [
        ("inference.py", "README.md", "```bash\npython inference.py --ckpt net.pt --save\n```\n", "medium"),
        ("inference.py", "docs/use.md", "Run `python3 -u ./inference.py` to test.\n", "medium"),
        ("tools/sample.py", "README.md", "    torchrun --nproc_per_node=2 tools/sample.py --n 9\n", "medium"),
        ("tools/sample.py", "README.md", "CUDA_VISIBLE_DEVICES=0 python -m tools.sample\n", "medium"),
        ("tools/sample.py", "tools/README.md", "accelerate launch sample.py\n", "medium"),
        ("inference.py", "README.md", "`inference.py` shows what a model makes of images.\n", "low"),
        ("inference.py", "README.md", "python train.py --then inference.py\n", "low"),
        ("inference.py", "README.md", "python other/inference.py\n", "low"),
    ],
)
def test_a_stop_in_a_program_that_the_notes_start_counts(
    tmp_path: Path, place: str, note: str, text: str, level: str
) -> None:
    found = impacts(tmp_path, {"net.py": NET, "tools/__init__.py": "", place: IN_USE + SAMPLES, note: text})["GPU102"]
    assert [str(one.level) for one in found] == [level]
