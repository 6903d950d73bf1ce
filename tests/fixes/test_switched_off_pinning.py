"""Loaders that are told not to pin their batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Fix, Safety

MakeJob = Callable[..., Any]

TRAIN = """\
import torch
from torch.utils.data import DataLoader, TensorDataset


def train(model, optimizer):
    images = TensorDataset(torch.rand(1000, 3, 64, 64), torch.rand(1000))
    loader = DataLoader(images, batch_size=64, num_workers=4{pinned})
    for x, y in loader:
        loss = model(x.cuda(), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(("pinned", "safety"), [("", Safety.SAFE), (", pin_memory=False", Safety.UNSAFE)])
def test_pinning_that_is_switched_off_may_be_a_choice(job: MakeJob, pinned: str, safety: Safety) -> None:
    fixes = [result.fix for result in job({"train.py": TRAIN.format(pinned=pinned)}).scan("GPU301")]
    assert [fix.safety for fix in fixes if isinstance(fix, Fix)] == [safety]


@pytest.mark.parametrize(("pinned", "safety"), [("", Safety.SAFE), (", pin_memory=False", Safety.UNSAFE)])
def test_copies_do_not_turn_pinning_on_safely_either(job: MakeJob, pinned: str, safety: Safety) -> None:
    fixes = [result.fix for result in job({"train.py": TRAIN.format(pinned=pinned)}).scan("GPU302")]
    assert [fix.safety for fix in fixes if isinstance(fix, Fix)] == [safety]
    assert [("may be a choice" in fix.description) for fix in fixes if isinstance(fix, Fix)] == [bool(pinned)]


def test_a_loader_beside_that_is_told_not_to_pin_makes_a_fix_unsafe(job: MakeJob) -> None:
    other = "    other = DataLoader(images, batch_size=64, num_workers=4, pin_memory=False)\n"
    both = TRAIN.format(pinned="").replace(
        "    for x, y in loader:", f"{other}    for (x, _), (y, _) in zip(loader, other):"
    )
    results = job({"train.py": both}).scan("GPU301", "GPU302")
    assert len(results) == 3
    for result in results:
        assert isinstance(result.fix, Fix)
        assert any("pin_memory" in both.splitlines()[edit.span.line - 1] for edit in result.fix.edits)
        assert result.fix.safety is Safety.UNSAFE
