"""Searches for unused parameters that a parameter of a helper switches on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

MakeJob = Callable[..., Any]

HELPER = """\
import torch
from torch.nn.parallel import DistributedDataParallel

_CPU_INDEX = -1
index = 0


def wrap(model, find_unused_parameters=True):
    if index == _CPU_INDEX:
        return DistributedDataParallel(model, find_unused_parameters=find_unused_parameters)
    return DistributedDataParallel(
        model, device_ids=[index], find_unused_parameters=find_unused_parameters
    )
"""
TRAIN = """\
import torch
from helper import wrap

model = wrap(torch.nn.Linear(8, 8).cuda(){})
for x in loader:
    model(x.cuda()).mean().backward()
"""


def test_the_default_changes_where_no_caller_says_otherwise(job: MakeJob) -> None:
    made = job({"train.py": TRAIN.format(""), "helper.py": HELPER})
    (result,) = made.scan("GPU351")
    assert result.finding.span.line == 11  # the other branch has no GPU
    assert made.repair("GPU351") == 1
    assert made.text("helper.py") == HELPER.replace("find_unused_parameters=True", "find_unused_parameters=False")


def test_one_change_is_enough_for_two_calls(job: MakeJob) -> None:
    text = HELPER.replace("_CPU_INDEX:", "1:")
    made = job({"train.py": TRAIN.format(""), "helper.py": text})
    assert len(made.scan("GPU351")) == 2
    made.repair("GPU351")
    assert made.text("helper.py") == text.replace("find_unused_parameters=True", "find_unused_parameters=False")


@pytest.mark.parametrize("given", [", True", ", find_unused_parameters=True"])
def test_what_the_callers_ask_for_is_theirs(job: MakeJob, given: str) -> None:
    made = job({"train.py": TRAIN.format(given), "helper.py": HELPER})
    assert "the callers of `wrap` ask for the search" in made.refusal("GPU351")
