"""Functions that workers call as they start, and that the program has replaced by a number (``random.seed = 0``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

MakeJob = Callable[..., Any]

PROGRAM = """\
import random

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms.functional import to_tensor

import photos

STATEMENT


class Photos(Dataset):
    def __init__(self, files):
        self.files = files

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return to_tensor(Image.open(self.files[index]).convert("RGB").resize((224, 224)))


def main(files):
    model = torch.load("model.pt").cuda()
    loader = DataLoader(Photos(files), batch_size=64, shuffle=True)
    for epoch in range(10):
        for images in loader:
            model(images.cuda()).mean().backward()
            optimizer.step()


if __name__ == "__main__":
    main(open("files.txt").read().split())
"""
OTHER = "import random\n\nrandom.seed = 3\n"


@pytest.mark.parametrize(
    ("statement", "other", "call", "where"),
    [
        ("random.seed = 0", "", "random.seed(0)", "train.py:11"),
        ("np.random.seed = 42", "", "np.random.seed(42)", "train.py:11"),
        ("torch.manual_seed = 1", "", "torch.manual_seed(1)", "train.py:11"),
        ("pass", OTHER, "random.seed(3)", "photos.py:3"),
    ],
)
def test_functions_that_workers_call_are_restored_first(
    job: MakeJob, statement: str, other: str, call: str, where: str
) -> None:
    made = job({"train.py": PROGRAM.replace("STATEMENT", statement), "photos.py": other})
    assert f"call `{call}` first" in made.refusal("GPU303")
    (finding,) = [one.finding for one in made.scan("GPU303")]
    assert finding.help.startswith(f"call `{call}` ({where} replaces")


@pytest.mark.parametrize(
    "statement", ["random.seed(0)", "photos.seed = 0", "torch.cuda.manual_seed = 0", "args = main; args.seed = 1"]
)
def test_other_assignments_leave_workers(job: MakeJob, statement: str) -> None:
    made = job({"train.py": PROGRAM.replace("STATEMENT", statement), "photos.py": "seed = 1\n"})
    made.repair("GPU303")
    assert "num_workers=4" in made.text("train.py")
