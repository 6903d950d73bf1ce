"""Data sets that come of an object which was made with a device: their samples may be on the GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Declined, Fix

MakeJob = Callable[..., Any]

LOOP = """\
from torch.utils.data import DataLoader, Subset


def log_prob(model, x):
    x = x.cuda()
    return model(x).mean()


def train(model, data, device):
    MADE
    loader = DataLoader(SET, batch_size=64, shuffle=True)
    model.to(device)
    for epoch in range(90):
        for x in loader:
            loss = log_prob(model, GIVEN)
            loss.backward()
            optimizer.step()
"""
PROGRAM = """\
import torch

from lattices import Lattices
from loop import train

device = torch.device("cuda")
data = Lattices(distance=5, ARGUMENT)
train(net, data, device)
"""
ON_GPU = "a device is passed to what makes the samples"


def _fix(job: MakeJob, made: str, chosen: str, *, given: str = "x", argument: str = "device=device") -> Any:
    loop = LOOP.replace("MADE", made).replace("SET", chosen).replace("GIVEN", given)
    results = job({"loop.py": loop, "main.py": PROGRAM.replace("ARGUMENT", argument)}).scan("GPU303")
    (fix,) = [result.fix for result in results]
    return fix


@pytest.mark.parametrize(
    ("made", "chosen"),
    [
        ("train_set, val_set = data.initialize(9).split()", "train_set"),
        ("data = data.initialize(9)", "data"),
        ("", "data.train_part"),
        ("", "Subset(data.part(0), chosen)"),
    ],
)
def test_an_object_with_a_device_makes_the_samples(job: MakeJob, made: str, chosen: str) -> None:
    fix = _fix(job, made, chosen)
    assert isinstance(fix, Declined)
    assert ON_GPU in fix.reason


def test_the_loop_moves_them(job: MakeJob) -> None:
    assert isinstance(_fix(job, "train_set, _ = data.split()", "train_set", given="x.to(device)"), Fix)


def test_no_device_is_given(job: MakeJob) -> None:
    assert isinstance(_fix(job, "train_set, _ = data.split()", "train_set", argument="noise=0.1"), Fix)
