"""Random states that are made before the workers start: each worker would get a copy and draw the same numbers."""

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
from torch.utils.data import DataLoader, Dataset, get_worker_info
from torchvision.transforms.functional import to_tensor

from renderer import SHARED, Renderer, Shift


class Lines(Dataset):
    def __init__(self, files, seed, transform=None):
        self.files = files
        self.rng = MADE
        self.renderer = Renderer(seed)
        self.transform = transform

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        image = to_tensor(Image.open(self.files[index]).convert("RGB").resize((224, 224)))
        return SAMPLE


def main(files):
    model = torch.load("model.pt").cuda()
    loader = DataLoader(Lines(files, 1TRANSFORM), batch_size=64, shuffle=TrueOPTIONS)
    for epoch in range(10):
        for images in loader:
            model(images.cuda()).mean().backward()
            optimizer.step()


if __name__ == "__main__":
    main(open("files.txt").read().split())
"""
RENDERER = """\
import random

import numpy as np

SHARED = np.random.default_rng(0)


class Renderer:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def run(self, image):
        return self.blur(image)

    def blur(self, image):
        return image.flip(0) if self.rng.random() > 0.3 else image

    def plain(self, image, index):
        rng = np.random.default_rng(index)
        return image.flip(0) if rng.random() > 0.3 else image


class Shift:
    def __init__(self):
        self.state = random.Random(7)

    def __call__(self, image):
        return image.roll(self.state.randint(0, 9), 1)
"""


def files(sample: str, made: str = "None", options: str = "") -> dict[str, str]:
    transform = ", Shift()" if "transform" in sample else ""
    text = (
        PROGRAM.replace("SAMPLE", sample)
        .replace("TRANSFORM", transform)
        .replace("MADE", made)
        .replace("OPTIONS", options)
    )
    return {"train.py": text, "renderer.py": RENDERER}


@pytest.mark.parametrize(
    ("sample", "made", "state"),
    [
        ("self.renderer.run(image)", "None", "`self.rng` of `Renderer`"),
        ("self.transform(image)", "None", "`self.state` of `Shift`"),
        ("image * SHARED.random()", "None", "`SHARED`"),
        ("image[:, self.rng.integers(9):]", "np.random.default_rng()", "`self.rng`"),
        ("image * self.rng.rand()", "np.random.RandomState(seed)", "`self.rng`"),
        ("image * self.rng.random()", "random.Random(seed)", "`self.rng`"),
        (
            "image + torch.randn(image.shape, generator=self.rng)",
            "torch.Generator().manual_seed(seed)",
            "`self.rng`",
        ),
    ],
)
def test_workers_get_no_copies_of_a_random_state(job: MakeJob, sample: str, made: str, state: str) -> None:
    offered = job(files(sample, made))
    assert state in offered.refusal("GPU303")
    (finding,) = [one.finding for one in offered.scan("GPU303")]
    assert finding.help.startswith(f"seed {state} in each worker (`worker_init_fn`; all would draw the same numbers)")


@pytest.mark.parametrize(
    ("sample", "made", "options"),
    [
        ("self.renderer.run(image)", "None", ", worker_init_fn=seed_renderer"),
        ("self.renderer.plain(image, index)", "None", ""),
        ("image[:, np.random.default_rng(index).integers(9):]", "None", ""),
        ("image * np.random.rand()", "np.random.default_rng(seed)", ""),  # made, but not drawn from
        ("image * random.random()", "None", ""),
        ("image", "np.random.default_rng(seed).permutation(100)", ""),
    ],
)
def test_other_draws_get_workers(job: MakeJob, sample: str, made: str, options: str) -> None:
    offered = job(files(sample, made, options))
    offered.repair("GPU303")
    assert "num_workers=4" in offered.text("train.py")


OF_MONAI = """\
import nibabel as nib
import torch
from LOADER import DataLoader
from monai.transforms import RandomizableTransform
from torch.utils.data import Dataset


class Crop(RandomizableTransform):
    def __call__(self, volume):
        start = self.R.randint(0, 32)
        return volume[start : start + 96]


class Volumes(Dataset):
    def __init__(self, files):
        self.files, self.crop = files, Crop()

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return self.crop(torch.from_numpy(nib.load(self.files[index]).get_fdata()))


def main(files):
    model = torch.load("model.pt").cuda()
    loader = DataLoader(Volumes(files), batch_size=4, shuffle=True)
    for epoch in range(10):
        for volumes in loader:
            model(volumes.cuda()).mean().backward()
            optimizer.step()


if __name__ == "__main__":
    main(open("files.txt").read().split())
"""


def test_only_the_loader_of_monai_seeds_its_transforms(job: MakeJob) -> None:
    plain = job({"train.py": OF_MONAI.replace("LOADER", "torch.utils.data")})
    assert "`self.R` of `Crop`" in plain.refusal("GPU303")
    own = job({"train.py": OF_MONAI.replace("LOADER", "monai.data")})
    own.repair("GPU303")
    assert "num_workers=4" in own.text("train.py")
