"""What a step adds to a list stays where something may read it before the list starts anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Fix

MakeJob = Callable[..., Any]

PROGRAM = """\
import numpy as np
import torch


def train(model, criterion, optimizer, train_loader, val_loader, epochs):
    for epoch in range(epochs):
        model.train()
        guesses = []
        for x, y in train_loader:
            guess = model(x.cuda(non_blocking=True))
            loss = criterion(guess, y.cuda(non_blocking=True))
            loss.backward()
            optimizer.step()
            guesses.append(guess.detach().cpu().numpy())
        model.eval()
        guesses = []
        with torch.no_grad():
            for x, y in val_loader:
                guesses.append(model(x.cuda(non_blocking=True)).cpu().numpy())
        print(np.concatenate(guesses).mean())
"""


def _description(job: MakeJob, program: str) -> str:
    made = [result.fix for result in job({"train.py": program}).scan("GPU305") if result.finding.span.line == 14]
    assert len(made) == 1
    return made[0].description if isinstance(made[0], Fix) else ""


def test_what_nothing_reads_goes(job: MakeJob) -> None:
    assert "which nothing reads" in _description(job, PROGRAM)


CASES = {
    "read before": ("        model.eval()\n", "        model.eval()\n        print(len(guesses))\n"),
    "started anew on demand": (
        "        guesses = []\n        with",
        "        if epoch:\n            guesses = []\n        with",
    ),
    "not started anew": ("        guesses = []\n        with", "        with"),
    "handed over before": ("        model.eval()\n", "        model.eval()\n        seen = guesses\n"),
    "an error reads it": (
        "            loss.backward()\n",
        "            if loss.isnan():\n                return guesses\n",
    ),
    "read by a closure": ("    for epoch", "    show = lambda: print(guesses)\n    for epoch"),
    "emptied in place": ("        guesses = []\n        with", "        guesses.clear()\n        with"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_may_be_read_stays(case: tuple[str, str], job: MakeJob) -> None:
    old, new = case
    assert PROGRAM.count(old) == 1
    program = PROGRAM.replace(old, new)
    made = [result.fix for result in job({"train.py": program}).scan("GPU305")]
    assert made
    assert not any(isinstance(one, Fix) and "which nothing reads" in one.description for one in made)
