"""Waits up to which a loop takes the time of each step, which would be too short without them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fixes.training_jobs import check_declined

MakeJob = Callable[..., Any]

STEPS = """\
import time

import torch


def train(model, loader, optimizer):
    total = 0.0
    began = time.time()
    for step, (x, y) in enumerate(loader):
        {first}
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        loss = model(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
        {last}
    return total
"""

APART = """\
ended = time.time()
        speed = len(x) / (ended - began)
        if step % 10 == 0:
            print(f"{speed} samples per second, loss {total}")
        began = time.time()"""
IN_ROUND = "speeds.append(len(x) / (time.time() - began))"
SHOWN_INSIDE = """\
meter.update(time.time() - began)
        began = time.time()
        if step % 100 == 0:
            print(meter)"""
SELDOM = """\
if step % 100 == 0:
            print(100 / (time.time() - began))
            began = time.time()"""
WAITS = """\
torch.cuda.synchronize()
        speeds.append(len(x) / (time.time() - began))"""


@pytest.mark.parametrize(("first", "last"), [("pass", APART), ("began = time.time()", IN_ROUND)])
def test_a_wait_stays_where_the_time_of_a_step_ends_at_it(job: MakeJob, first: str, last: str) -> None:
    check_declined(job, "GPU305", {"train.py": STEPS.format(first=first, last=last)}, "each step is timed up to this")


@pytest.mark.parametrize("last", [SHOWN_INSIDE, SELDOM])
def test_times_that_follow_on_each_other_have_all_work(job: MakeJob, last: str) -> None:
    made = job({"train.py": STEPS.format(first="pass", last=last)})
    assert made.repair("GPU305") == 1
    assert "total += loss.detach()" in made.text("train.py")
