"""Programs whose main guard leaves out code that spawned workers would run again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

MakeJob = Callable[..., Any]

PROGRAM = """\
import torch
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.datasets import ImageFolder

limit = 8

if __name__ == "__main__":
    kinds = ["cat", "dog"]
    id = 1
    model = torch.load("model.pt")
    loader = DataLoader(ImageFolder("data", transforms.ToTensor()), batch_size=64)
    for epoch in range(20):
        for images, labels in loader:
            model(images.cuda()).mean().backward()

"""
WINDOWS = "path = 'C:\\\\data\\\\pets'\n"
LATER = "for kind in kinds:\n    print(kind)\n"
LOOP = """\
rest = DataLoader(ImageFolder("rest", transforms.ToTensor()), batch_size=64, num_workers=4)
for images, labels in rest:
    print(images.cuda().mean())
"""


def label(job: MakeJob, program: str) -> str:
    return job({"train.py": program}).offer("GPU303").description


@pytest.mark.parametrize(
    ("later", "said"),
    [
        (LATER, "; line 17 reads `kinds`, which only the code behind `if __name__ == '__main__'` binds: guard it"),
        (LOOP, "; line 18 draws batches outside of the main guard: guard it where processes are spawned"),
    ],
)
def test_code_beside_the_guard_is_named(job: MakeJob, later: str, said: str) -> None:
    assert said in label(job, PROGRAM + later)
    refusal = job({"train.py": PROGRAM + later + WINDOWS}).refusal("GPU303")
    assert refusal.startswith(said.removeprefix("; ").partition(": ")[0])


@pytest.mark.parametrize(
    "later",
    [
        "print(limit, id)\n",
        "def show():\n    print(kinds)\n",
        "if __name__ == '__main__':\n    print(kinds)\n",
        "kinds = []\nprint(kinds)\n",
    ],
)
def test_code_that_needs_nothing_from_behind_the_guard(job: MakeJob, later: str) -> None:
    assert "spawned" not in label(job, PROGRAM + later)


MODULE = """\
import lightning as L
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.datasets import ImageFolder

class Photos(L.LightningDataModule):
    def setup(self, stage):
        self.photos = ImageFolder("data", transforms.ToTensor())

    def train_dataloader(self):
        return DataLoader(self.photos, batch_size=64)

class Net(L.LightningModule):
    def training_step(self, batch, index):
        return self(batch[0]).mean()

def main():
    L.Trainer(max_epochs=20, accelerator="gpu").fit(Net(), datamodule=Photos())

"""


@pytest.mark.parametrize(
    ("start", "needs"),
    [("main()", True), ("if __name__ == '__main__':\n    main()", False), ("print(Photos)", False)],
)
def test_a_framework_takes_loaders_from_objects_that_the_program_makes(job: MakeJob, start: str, needs: bool) -> None:
    said = "; needs an `if __name__ == '__main__'` where processes are spawned"
    assert (said in label(job, f"{MODULE}{start}\n")) is needs
