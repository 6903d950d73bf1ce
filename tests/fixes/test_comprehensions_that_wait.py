"""Batches of loaders without workers that a comprehension draws: pinning them gains nothing where each one waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Declined

MakeJob = Callable[..., Any]

PROGRAM = """\
import torch
from torch.utils.data import DataLoader

loader = DataLoader(Clouds("clouds"), batch_size=64)


def loss_of(x, y):
    loss = criterion(model(x), y)
    return loss.item(), len(x)


def evaluate():
    model.cuda().eval()
    with torch.no_grad():
        {}
    return losses
"""


@pytest.mark.parametrize(
    ("drawn", "waits"),
    [
        ("losses, sizes = zip(*[loss_of(x.cuda(), y.cuda()) for x, y in loader])", True),
        ("losses = {i: loss_of(x.cuda(), y.cuda()) for i, (x, y) in enumerate(loader)}", True),
        ("losses = sum(loss_of(x.cuda(), y.cuda())[0] for x, y in loader)", True),
        ("losses = [criterion(model(x.cuda()), y.cuda()) for x, y in loader]", False),
        ("losses = [loss_of(x.cuda(), y.cuda()) if full(x) else criterion(x.cuda(), y) for x, y in loader]", False),
        ("losses = [loss_of(x.cuda(), y.cuda()) for x, y in loader if len(x) == 64]", False),
    ],
)
def test_a_comprehension_waits_for_each_batch(job: MakeJob, drawn: str, waits: bool) -> None:
    results = [one.fix for one in job({"train.py": PROGRAM.format(drawn)}).scan("GPU301", "GPU302")]
    reasons = [one.reason for one in results if isinstance(one, Declined)]
    assert results and any("waits for each batch" in reason for reason in reasons) is waits, results
    assert all(reason.count("the loader has no workers") <= 1 for reason in reasons)
