"""Jobs that start a program by its path, from whose folder it does not find its own package."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import bases

JOB = """\
#!/bin/bash
#SBATCH --nodes=1
#SBATCH --gres=gpu:4

{command}
"""
PROGRAM = """\
import torch
from torch.utils.data import DataLoader

{imports}

model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(Photos("photos"), batch_size=64, num_workers=4)
for epoch in range(90):
    for images, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()
"""
OWN = "from src.data import Photos\nfrom src.net import Net"
FILES = {
    "src/__init__.py": "",
    "src/data.py": "class Photos:\n    pass\n",
    "src/net.py": "from torch import nn\n\n\nclass Net(nn.Module):\n    pass\n",
    "src/train.py": PROGRAM.format(imports=OWN),
    "run.sh": "python -m src.train --epochs 9\n",
}
_NOT_FOUND = "does not find its own package"


def _basis(folder: Path, command: str, files: dict[str, str]) -> str:
    (found,) = bases(folder, {**FILES, "jobs/train.sbatch": JOB.format(command=command), **files}, "GPU413")
    return found


@pytest.mark.parametrize("command", ["python src/train.py", "python3 -u src/train.py --epochs 9"])
def test_a_package_is_not_found_from_its_own_folder(tmp_path: Path, command: str) -> None:
    found = _basis(tmp_path, command, {})
    assert found.startswith("low") and _NOT_FOUND in found


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("python -m src.train", {}),
        ("python src/train.py\npython -m src.train", {}),
        ("export PYTHONPATH=.\npython src/train.py", {}),
        ("PYTHONPATH=. python src/train.py", {}),
        ("python src/train.py", {"README.md": "Run `export PYTHONPATH=$PWD` first.\n"}),
        ("python src/train.py", {"setup.py": "from setuptools import setup\n\nsetup(packages=['src'])\n"}),
        ("python src/train.py", {"src/train.py": PROGRAM.format(imports=f"import sys\nsys.path.append('.')\n{OWN}")}),
        ("python src/train.py", {"src/train.py": PROGRAM.format(imports=OWN.replace("src.", ""))}),
        ("python src/train.py", {"src/src/data.py": "", "src/src/net.py": ""}),
        ("python src/train.py", {"run.sh": "python src/train.py\n"}),  # its user may set the path
        ("python train.py", {"train.py": PROGRAM.format(imports=OWN), "src/train.py": ""}),
    ],
)
def test_a_package_may_be_found(tmp_path: Path, command: str, files: dict[str, str]) -> None:
    found = _basis(tmp_path, command, files)
    assert _NOT_FOUND not in found and not found.startswith("low")
