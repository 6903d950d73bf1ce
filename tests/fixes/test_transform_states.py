"""Transforms with a random state of their own, which all workers would get in the same state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Declined

MakeJob = Callable[..., Any]

PROGRAM = """\
import albumentations as A
import cv2
import torch
from albumentations.pytorch import ToTensorV2
from torch.utils.data import DataLoader, Dataset


def augmented(size):
    return A.Compose([A.RandomCrop(size, size), A.Normalize(), ToTensorV2()])


def init_worker(index):
    torch.utils.data.get_worker_info().dataset.transform.set_random_seed(torch.initial_seed() % 2**32)


class Photos(Dataset):
    def __init__(self, paths, transform=None):
        self.paths = paths
        self.transform = transform

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return self.transform(image=cv2.imread(self.paths[index]))["image"]


def main(paths):
    resized = A.Compose([A.Resize(64, 64), A.Normalize(), ToTensorV2()])
    photos = Photos(paths, TRANSFORM)
    loader = DataLoader(photos, batch_size=64, shuffle=TrueMORE)
    model.cuda()
    for epoch in range(10):
        for images in loader:
            model(images.cuda()).mean().backward()
            optimizer.step()
    model.eval()
    with torch.no_grad():
        for images in DataLoader(Photos(paths, resized), batch_size=64, num_workers=4, pin_memory=True):
            model(images.cuda(non_blocking=True))


if __name__ == "__main__":
    main(sorted(listed("photos")))
"""
RANDOM, PLAIN = "augmented(64)", "resized"
OWN = "`self.transform` draws from a random state of its own"


def _job(job: MakeJob, transform: str, more: str = "", pinned: str = "") -> Any:
    files = {"train.py": PROGRAM.replace("TRANSFORM", transform).replace("MORE", more)}
    return job(files | ({"requirements.txt": f"torch==2.4.0\n{pinned}\n"} if pinned else {}))


@pytest.mark.parametrize(
    "pinned", ["", "albumentations==1.4.21", "albumentations==2.0.8", "albumentations>=1.3", "albumentations"]
)
@pytest.mark.parametrize("transform", [RANDOM, "A.HorizontalFlip()", "A.Compose([A.ToGray(), A.Resize(9, 9)])"])
def test_workers_would_draw_the_same_numbers(job: MakeJob, transform: str, pinned: str) -> None:
    assert OWN in _job(job, transform, pinned=pinned).refusal("GPU303")


@pytest.mark.parametrize(
    ("transform", "more", "pinned"),
    [
        (RANDOM, "", "albumentations==1.3.1"),
        (RANDOM, "", "albumentations==1.4.20"),
        (RANDOM, "", "albumentations<1.4"),
        (RANDOM, ", worker_init_fn=init_worker", "albumentations==2.0.8"),
        (PLAIN, "", "albumentations==2.0.8"),
        ("A.Resize(64, 64)", "", "albumentations==2.0.8"),
    ],
)
def test_other_workers_are_offered(job: MakeJob, transform: str, more: str, pinned: str) -> None:
    assert "load with workers" in _job(job, transform, more, pinned).offer("GPU303").description


def test_samples_that_seed_their_transform(job: MakeJob) -> None:
    text = PROGRAM.replace("TRANSFORM", RANDOM).replace("MORE", "")
    sample = "        return self.transform(image"
    seeded = text.replace(sample, f"        self.transform.set_random_seed(index)\n{sample}")
    assert "load with workers" in job({"train.py": seeded}).offer("GPU303").description


def test_the_advice_says_what_seeds_it(job: MakeJob) -> None:
    [result] = _job(job, RANDOM).scan("GPU303")
    assert "that calls its `set_random_seed(torch.initial_seed() % 2**32)`" in result.finding.help
    [result] = _job(job, PLAIN).scan("GPU303")
    assert "seed" not in result.finding.help


@pytest.mark.parametrize(("transform", "is_left"), [(RANDOM, True), (PLAIN, False)])
def test_a_setting_that_reaches_such_a_loader(job: MakeJob, transform: str, is_left: bool) -> None:
    text = PROGRAM.replace("TRANSFORM", transform).replace("MORE", ", num_workers=cfg.num_workers")
    text = text.replace("import torch\n", "import torch\nfrom omegaconf import OmegaConf\n", 1)
    text = text.replace("def augmented", 'cfg = OmegaConf.load("config.yaml")\n\n\ndef augmented')
    made = job({"train.py": text, "config.yaml": "num_workers: 0\n"})
    made.files = lambda: [made.root / "config.yaml", made.root / "train.py"]
    fixes = [result.fix for result in made.scan("GPU303")]
    assert fixes
    assert all(isinstance(fix, Declined) and OWN in fix.reason for fix in fixes) is is_left
