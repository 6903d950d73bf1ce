"""Samples that always raise an error: nothing that is done about their loader makes the program any faster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Declined
from gpulint.impact import Level

MakeJob = Callable[..., Any]

# The helpers are there since a file of few names is taken for an excerpt.
HELPERS = "".join(f"def scaled_{n}(image, ratio_{n}):\n    return image * ratio_{n}\n\n\n" for n in range(60))
PHOTOS = """\
import cv2
import numpy as np
from torch.utils.data import Dataset


HELPERSclass Photos(Dataset):
    def __init__(self, files, transform=None):
        self.files = files
        self.transform = transform

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        image = cv2.imread(self.files[index])
        READS
        if self.transform is not None:
            image = self.transform(image)
        return image
"""
TRAINING = """\
import torch
from torch.utils.data import DataLoader
from torchvision import models, transforms
from torchvision.transforms import ToTensor

from photos import Photos


HELPERSdef jittered(image):
    JITTERS
    return ToTensor()(image)


class Flip:
    def __call__(self, image):
        FLIPS
        return image


def stacked(images):
    STACKS
    return torch.stack(images)


def main(files):
    photos = Photos(files, TRANSFORM)
    SETS
    loader = DataLoader(photos, batch_size=64, num_workers=0, shuffle=True, OPTIONS)
    model = models.resnet50().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(90):
        for images in loader:
            loss = model(images.cuda(non_blocking=True)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main([line.strip() for line in open("photos.txt")])
"""
PARTS = {"READS": "image = image[:, :, ::-1]", "TRANSFORM": "jittered", "OPTIONS": "pin_memory=True"}
EMPTY = {"JITTERS": "image = image / 2", "FLIPS": "image = image[::-1]", "STACKS": "images = list(images)", "SETS": ""}


def _found(job: MakeJob, code: str, parts: dict[str, str]) -> Any:
    programs = {"train.py": TRAINING, "photos.py": PHOTOS}
    for name, text in {**PARTS, **EMPTY, **parts, "HELPERS": HELPERS}.items():
        programs = {path: program.replace(name, text) for path, program in programs.items()}
    (result,) = job(programs).scan(code)
    return result


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        ({"READS": "image = resized(image)"}, "resized"),
        ({"JITTERS": "image = RandomFlip(p=0.5)(image)"}, "RandomFlip"),
        (
            {
                "TRANSFORM": "transform=None",
                "SETS": "photos.transform = jittered",
                "JITTERS": "image = A.Flip()(image)",
            },
            "A",
        ),
        (
            {"TRANSFORM": "transforms.Compose([ToTensor(), Flip()])", "FLIPS": "image = ImageOps.mirror(image)"},
            "ImageOps",
        ),
        ({"OPTIONS": "collate_fn=stacked, pin_memory=True", "STACKS": "images = pad_sequence(images)"}, "pad_sequence"),
    ],
)
def test_samples_that_use_what_nothing_defines(job: MakeJob, parts: dict[str, str], name: str) -> None:
    found = _found(job, "GPU303", parts)
    assert found.finding.impact.level is Level.LOW
    assert isinstance(found.fix, Declined)
    assert f"nothing defines `{name}`" in found.fix.reason


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"READS": "if image is None:\n            image = empty_image()"},
        {"JITTERS": "try:\n        image = RandomFlip(p=0.5)(image)\n    except NameError:\n        pass"},
        {"TRANSFORM": "transform=None", "JITTERS": "image = RandomFlip(p=0.5)(image)"},
        {"FLIPS": "image = ImageOps.mirror(image)"},
        {"JITTERS": "from torchvision.transforms import RandomFlip\n    image = RandomFlip(p=0.5)(image)"},
    ],
)
def test_samples_that_may_be_made(job: MakeJob, parts: dict[str, str]) -> None:
    found = _found(job, "GPU303", parts)
    assert found.finding.impact.level is not Level.LOW
    assert not isinstance(found.fix, Declined)


def test_the_loop_over_samples_that_are_never_made(job: MakeJob) -> None:
    broken = {"JITTERS": "image = RandomFlip(p=0.5)(image)"}
    assert _found(job, "GPU207", broken).finding.impact.level is Level.LOW
    assert _found(job, "GPU207", {}).finding.impact.level is not Level.LOW
