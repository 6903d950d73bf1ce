"""Debug modes in jobs whose programs neither train nor run a model."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import bases

JOB = "#!/bin/bash\n#SBATCH --gres=gpu:1\nexport CUDA_LAUNCH_BLOCKING=1\nsrun python -u show.py --job 3\n"
NET = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(x)


def train(net, loader, optimizer):
    for x in loader:
        net(x.cuda()).sum().backward()
        optimizer.step()


if __name__ == "__main__":
    train(Net().cuda(), loader, optimizer)
"""
SHOW = """\
import torch
from net import Net{also}

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
net = Net().to(device)
net.load_state_dict(torch.load("net.pth"))
for name, parameter in net.named_parameters():
    print(f"{{name}}: {{parameter.shape}}")
{more}"""


@pytest.mark.parametrize(
    ("also", "more", "idle"),
    [
        ("", "", True),
        ("", "\n\ndef count():\n    return sum(one.numel() for one in net.parameters())\n\n\nprint(count())\n", True),
        ("", "torch.save(net.state_dict(), 'half.pth')\n", True),
        (", train", "train(net, [], None)\n", False),
        ("", "for x in batches:\n    print(net(x.to(device)))\n", False),
        ("", "Trainer(net)\n", False),
        ("", "import model_zoo\nmodel_zoo.fit(net)\n", False),
    ],
)
def test_a_debug_mode_of_a_program_that_prints_parameters(tmp_path: Path, also: str, more: str, idle: bool) -> None:
    files = {"job.sh": JOB, "net.py": NET, "show.py": SHOW.format(also=also, more=more)}
    (found,) = bases(tmp_path, files, "GPU414")
    assert ("its program runs no model" in found) is idle
    assert found.startswith("low") is idle


def test_a_program_that_trains_where_it_is_imported(tmp_path: Path) -> None:
    net = NET.replace('if __name__ == "__main__":\n    ', "")
    (found,) = bases(tmp_path, {"job.sh": JOB, "net.py": net, "show.py": SHOW.format(also="", more="")}, "GPU414")
    assert found.startswith("high")
