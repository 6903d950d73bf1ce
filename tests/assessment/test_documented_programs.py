"""Programs of a tree whose notes and scripts name others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.assessment.scans import IN_USE, bases

SAYS = "the documented programs do not run it"
LOOP = """\
from torch.utils.data import DataLoader
from torchvision import models, transforms
from torchvision.datasets import ImageFolder

model = models.resnet50().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = ImageFolder("photos", transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()]))
{loader}
for epoch in range(100):
    for images, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
SLOW = "import torch\n" + LOOP.format(loader="loader = DataLoader(data, batch_size=128, shuffle=True)")
FAST = "import torch\n" + LOOP.format(
    loader="loader = DataLoader(data, batch_size=128, shuffle=True, num_workers=8, pin_memory=True)"
)
CONVERT = "import json\nimport sys\n\njson.dump(json.load(open(sys.argv[1])), open(sys.argv[2], 'w'))\n"
README = "# Photos\n\nTrain with `python train.py`, or see `train.py`.\n"
CELL = {"cell_type": "code", "metadata": {}, "outputs": [], "source": "import other", "execution_count": 1}
NOTEBOOK = json.dumps({"cells": [CELL], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def test_a_program_beside_the_documented_ones_costs_less(tmp_path: Path) -> None:
    (alone,) = bases(tmp_path / "alone", {"other.py": SLOW, "train.py": FAST}, "GPU303")
    (found,) = bases(tmp_path / "beside", {"other.py": IN_USE + SLOW, "train.py": FAST, "README.md": README}, "GPU303")
    assert alone.startswith("high") and SAYS not in alone
    assert found.startswith("medium") and SAYS in found


def test_so_does_one_beside_those_of_scripts(tmp_path: Path) -> None:
    files = {"other.py": SLOW, "train.py": FAST, "run.sh": "python train.py --epochs 100\n"}
    (found,) = bases(tmp_path, files, "GPU303")
    assert SAYS in found


def test_it_does_not_matter_what_the_documented_programs_do(tmp_path: Path) -> None:
    files = {"README.md": "Convert with `python convert.py`.\n", "convert.py": CONVERT}
    (found,) = bases(tmp_path, {"other.py": IN_USE + SLOW, "train.py": FAST, **files}, "GPU303")
    assert SAYS in found


@pytest.mark.parametrize(
    "files",
    [
        {"README.md": README + "Then `python other.py`.\n"},
        {"README.md": README + "- other.py: trains longer\n"},
        {"README.md": README, "run.sh": "for each in other more; do python $each.py; done\n"},
        {"README.md": README, "sweep.yaml": "program: other\n"},
        {"README.md": README, "start.py": "import subprocess\n\nsubprocess.run(['python', 'other.py'])\n"},
        {"README.md": README, "look.ipynb": NOTEBOOK},
        {"README.md": README + "Then `python main.py`.\n", "main.py": "import other\n"},
        {"README.md": "# Photos\n"},
    ],
)
def test_a_named_program_costs_what_it_costs(tmp_path: Path, files: dict[str, str]) -> None:
    found = bases(tmp_path, {"other.py": SLOW, "train.py": FAST, **files}, "GPU303")
    assert found and not any(SAYS in one for one in found)
