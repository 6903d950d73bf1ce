"""Samples that are drawn with NumPy: workers of PyTorch before 1.9 all draw the same numbers unless each seeds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Declined

MakeJob = Callable[..., Any]

DRAWN = "(`worker_init_fn`; before PyTorch 1.9 all draw the same from `numpy.random.randint`), then set `num_workers=`"
UNSEEDED = " (before PyTorch 1.9 with a `worker_init_fn` that seeds NumPy, as samples draw from `numpy.random.randint`)"
TRIPLETS = """\
import numpy as np
import torch
from PIL import Image
from torch.autograd import Variable
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms.functional import to_tensor


def number(count):
    return np.random.randint(0, count)


class Triplets(Dataset):
    def __init__(self, files):
        self.files = files

    def __len__(self):
        return 100000

    def pick(self):
        return self.files[number(len(self.files))]

    def __getitem__(self, index):
        return to_tensor(Image.open(self.pick()))


loader = DataLoader(Triplets(open("files.txt").read().split()), batch_size=64)
model = Net().cuda()
for epoch in range(90):
    for images in loader:
        loss = model(images.cuda()).mean()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("old", "new", "files", "first", "last"),
    [
        ("", "", {}, "set `num_workers=`", UNSEEDED),
        ("", "", {"requirements.txt": "torch==1.4.0\n"}, f"seed NumPy in each worker {DRAWN}", "per GPU"),
        ("", "", {"requirements.txt": "torch>=1.4.0\n"}, f"seed NumPy in each worker {DRAWN}", "per GPU"),
        ("", "", {"README.md": "- PyTorch 1.2\n"}, f"seed NumPy in each worker {DRAWN}", "per GPU"),
        (
            "images.cuda()",
            "Variable(images.cuda(), volatile=True)",
            {},
            f"seed NumPy in each worker {DRAWN}",
            "per GPU",
        ),
        ("loss.backward()", "loss.backward(), loss.data[0]", {}, f"seed NumPy in each worker {DRAWN}", "per GPU"),
        ("", "", {"requirements.txt": "torch>=2.0\n"}, "set `num_workers=`", "for all epochs"),
        ("", "", {"README.md": "- PyTorch 1.12\n"}, "set `num_workers=`", "for all epochs"),
        ("Net().cuda()", "torch.compile(Net().cuda())", {}, "set `num_workers=`", "for all epochs"),
        ("size=64", "size=64, worker_init_fn=seed", {"README.md": "- PyTorch 1.8\n"}, "set `num_w", "for all epochs"),
        ("return np", "np.random.seed(count)\n    return np", {}, "set `num_workers=`", "for all epochs"),
        ("np.random.randint(0, count)", "torch.randint(0, count, ())", {}, "set `num_workers=`", "for all epochs"),
    ],
)
def test_workers_of_older_releases_draw_the_same_numbers(
    job: MakeJob, old: str, new: str, files: dict[str, str], first: str, last: str
) -> None:
    (result,) = job({"train.py": TRIPLETS.replace(old, new), **files}).scan("GPU303")
    assert result.finding.help.startswith(first)
    assert result.finding.help.endswith(last)


PLAIN = """\
class Photos(Dataset):
    def __init__(self, files):
        self.files = files

    def __len__(self):
        return 100000

    def __getitem__(self, index):
        return to_tensor(Image.open(self.files[index]))


def make(name, files):
    return {chosen}


"""


@pytest.mark.parametrize(
    ("chosen", "where"),
    [
        ('Photos(files) if name == "photos" else Triplets(files)', " of `Triplets`"),
        ("Triplets(files)", None),
        ("Photos(files)", ""),
    ],
)
def test_one_of_several_data_sets_draws(job: MakeJob, chosen: str, where: str | None) -> None:
    """Only its samples need a seed."""
    text = TRIPLETS.replace("loader =", f"{PLAIN.format(chosen=chosen)}loader =")
    text = text.replace("number(len(self.files))", "np.random.randint(0, len(self.files))")
    text = text.replace("Triplets(open", 'make(open("name.txt").read(), open')
    (result,) = job({"train.py": text, "requirements.txt": "torch==1.5.0\n"}).scan("GPU303")
    if where is None:
        assert result.finding.help.startswith("seed NumPy in each worker")
        assert isinstance(result.fix, Declined)
        return
    assert result.finding.help.startswith("set `num_workers=`")
    assert ("as samples of `Triplets` draw from `numpy.random.randint`" in result.finding.help) is bool(where)
    assert not isinstance(result.fix, Declined)
    assert ("for samples of `Triplets` unless a `worker_init_fn` seeds NumPy" in result.fix.description) is bool(where)


@pytest.mark.parametrize(
    ("release", "reason"),
    [
        ("torch==1.4.0", "before 1.9 all workers draw the same numbers from `numpy.random.randint`"),
        ("torch", "samples draw from `numpy.random.randint`, which the program seeds"),
    ],
)
def test_a_fix_names_the_draw_that_would_repeat(job: MakeJob, release: str, reason: str) -> None:
    seeded = TRIPLETS.replace("loader = ", "import random\nrandom.seed(1)\nnp.random.seed(1)\nloader = ")
    drawn = seeded.replace("self.pick()))", "self.pick())) * random.random()")
    (result,) = job({"train.py": drawn, "requirements.txt": f"{release}\n"}).scan("GPU303")
    assert isinstance(result.fix, Declined)
    assert reason in result.fix.reason
