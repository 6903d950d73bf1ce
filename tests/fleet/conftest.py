"""Repositories to scan."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

JOB = "#!/bin/bash\n#SBATCH --gres=gpu:4\ntorchrun --nproc_per_node=4 train.py\nsleep infinity\n"
TRAIN = """import glob
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms.functional import to_tensor


class Photos(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __getitem__(self, index):
        return to_tensor(Image.open(self.paths[index]))


loader = DataLoader(Photos(glob.glob("*.jpg")), batch_size=256, num_workers=8)
model = nn.Conv2d(3, 1, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for epoch in range(90):
    for images in loader:
        optimizer.zero_grad()
        model(images.cuda()).sum().backward()
        optimizer.step()
"""


def tree(folder: Path, **files: str) -> Path:
    """A folder with a wasteful job, and further files (``a__py`` is ``a.py``)."""
    folder.mkdir(parents=True)
    for name, text in {"job__sh": JOB, "train__py": TRAIN, **files}.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def commit(folder: Path) -> str:
    """Make a git repository of a folder; returns the commit."""
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], [*identity, "commit", "-qm", "x"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Runs ``gpulint fleet`` in an empty folder; returns exit code, standard output and standard error."""
    from gpulint.cli import main

    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def run(*words: object) -> tuple[int, str, str]:
        code = main(["fleet", *map(str, words)])
        out, err = capsys.readouterr()
        return code, out, err

    return run
