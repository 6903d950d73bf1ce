"""Loaders that a program makes in a function that always raises an error: they stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Declined, Fix

MakeJob = Callable[..., Any]

# The helpers are there since a file of few names is taken for an excerpt.
HELPERS = "".join(f"def scaled_{n}(image, ratio_{n}):\n    return image * ratio_{n}\n\n\n" for n in range(60))
LOADING = """\
import numpy as np
import torch
from torch.utils.data import DataLoader


HELPERSdef loaders(folder, size):
    EXTRA
    data = DATA(folder)
    return DataLoader(data, batch_size=size, shuffle=True, OPTIONS)
"""
TRAINING = """\
from loading import loaders

model = model.cuda()
loader = loaders("photos", 64)
for epoch in range(90):
    for x, y in loader:
        loss = criterion(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
        loss.backward()
        optimizer.step()
"""
PHOTOS = """\
class Photos:
    def __init__(self, folder):
        self.files = np.array(folder.files())

    def __getitem__(self, index):
        return np.load(self.files[index])


"""
SETTINGS = [
    ("GPU303", "pin_memory=True"),
    ("GPU304", "num_workers=8, pin_memory=True"),
    ("GPU301", "num_workers=8, persistent_workers=True"),
]


def _fixes(job: MakeJob, code: str, options: str, data: str, extra: str = "") -> list[Any]:
    text = LOADING.replace("HELPERS", HELPERS).replace("EXTRA", extra or "size = int(size)").replace("OPTIONS", options)
    made = job({"train.py": TRAINING, "loading.py": text.replace("DATA", data)})
    return [result.fix for result in made.scan(code)]


@pytest.mark.parametrize(("code", "options"), SETTINGS)
def test_a_data_set_that_nothing_defines(job: MakeJob, code: str, options: str) -> None:
    (declined,) = _fixes(job, code, options, "Photos")
    assert "nothing defines `Photos`" in declined.reason


def test_an_earlier_name_that_nothing_defines(job: MakeJob) -> None:
    (declined,) = _fixes(job, "GPU303", "pin_memory=True", "np.memmap", "seed_everything(size)")
    assert "nothing defines `seed_everything`" in declined.reason


@pytest.mark.parametrize(
    ("data", "extra"),
    [
        ("Photos", "from photos import Photos"),
        ("Photos", "try:\n        from photos import Photos\n    except ImportError:\n        raise"),
        ("np.memmap", "if size < 0:\n        size = default_size()"),
    ],
)
def test_a_data_set_that_is_defined(job: MakeJob, data: str, extra: str) -> None:
    assert all(isinstance(fix, Fix) for fix in _fixes(job, "GPU303", "pin_memory=True", data, extra))
    assert _fixes(job, "GPU303", "pin_memory=True", data, extra)


@pytest.mark.parametrize(("code", "options"), SETTINGS)
@pytest.mark.parametrize("maker", ["Photos", "PhotoSet"])
def test_what_makes_a_data_set_in_a_branch(job: MakeJob, code: str, options: str, maker: str) -> None:
    program = LOADING.replace("HELPERS", HELPERS + PHOTOS).replace("EXTRA", "folder.eval()")
    loading = program.replace("    data = DATA", f"    if size:\n        data = {maker}").replace("OPTIONS", options)
    (found,) = job({"loading.py": loading, "train.py": TRAINING}).scan(code)
    if maker == "Photos":
        assert isinstance(found.fix, Fix)
    else:
        assert isinstance(found.fix, Declined)
        assert "nothing defines `PhotoSet`" in found.fix.reason
