"""Sums over the losses of a step: on the GPU nothing is gained where the step reads the sum and there is one loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Declined, Fix

MakeJob = Callable[..., Any]
PROGRAM = """\
import torch


def logged(losses, seen):
    total = 0.0
    for {each}:
        part = value.mean()
        total += part.item()
    {use}


for images in loader:
    losses = criterion(model(images.cuda()))
    losses["main"].backward()
    optimizer.step()
    logged(losses, seen)
"""


def _fix(job: MakeJob, each: str, use: str) -> Fix | Declined | None:
    results = job({"train.py": PROGRAM.format(each=each, use=use)}).scan("GPU305")
    found = next(result for result in results if "part.item()" in result.finding.message)
    fix: Fix | Declined | None = found.fix
    return fix


@pytest.mark.parametrize("each", ["name, value in losses.items()", "value in losses.values()"])
@pytest.mark.parametrize("use", ["seen.append(float(total) * 8)", "seen[0] += total", "return total"])
def test_a_sum_that_the_step_reads_stays(job: MakeJob, each: str, use: str) -> None:
    fix = _fix(job, each, use)
    assert isinstance(fix, Declined) and "nothing is gained" in fix.reason


def test_a_sum_of_many_parts_is_read_once(job: MakeJob) -> None:
    fix = _fix(job, "value in split(losses['main'])", "seen.append(float(total) * 8)")
    assert isinstance(fix, Fix) and "part.detach()" not in fix.description and fix.changes
