"""Fixes that are right in most programs and are labelled unsafe in those where they may not be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Safety

MakeJob = Callable[..., Any]

HEAD = """\
import torch
from torch.utils.data import DataLoader

model = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
loader = DataLoader(data, batch_size=16, pin_memory=True)
"""
STEP = """\
for x, y in loader:
    optimizer.zero_grad()
    loss = model(x.cuda(non_blocking=True)).sum()
    {before}
    loss.backward()
    {after}
    optimizer.step()
"""
CAUGHT = """\
torch.autograd.set_detect_anomaly(True)
for x, y in loader:
    optimizer.zero_grad()
    try:
        model(x.cuda(non_blocking=True)).sum().backward()
    except RuntimeError:
        continue
    optimizer.step()
"""
PLACES = """\
for x, y in loader:
    optimizer.zero_grad()
    places = torch.arange({0}).cuda()
    (model(x.cuda(non_blocking=True)) * places).sum().backward()
    optimizer.step()
"""


def stop(before: str) -> str:
    return STEP.format(before=before, after="pass")


@pytest.mark.parametrize(
    ("code", "program", "safe"),
    [
        ("GPU414", "torch.autograd.set_detect_anomaly(True)\n" + stop("pass"), True),
        ("GPU414", CAUGHT, False),
        ("GPU102", stop("breakpoint()"), True),
        ("GPU102", stop("if len(y) > 1:\n        print(y)\n        breakpoint()"), True),
        ("GPU102", stop("if torch.isnan(loss):\n        print(y)\n        breakpoint()"), False),
        ("GPU306", PLACES.format("2"), True),
        ("GPU306", PLACES.format("0, 1, 0.5"), False),
        ("GPU306", PLACES.format("0, 1, 1 / 2"), False),
    ],
)
def test_a_fix_is_safe_only_where_nothing_else_depends_on_what_it_removes(
    job: MakeJob, code: str, program: str, safe: bool
) -> None:
    assert job({"train.py": HEAD + program}).offer(code).safety is (Safety.SAFE if safe else Safety.UNSAFE)
