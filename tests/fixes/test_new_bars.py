"""A bar that each epoch makes anew shows something in short epochs as well: its values change by the epoch's steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

MakeJob = Callable[..., Any]

METHOD = """\
import torch
from tqdm import tqdm


class Trainer:
    def __init__(self, model, optimizer, criterion):
        self.model, self.optimizer, self.criterion = model, optimizer, criterion
        self.global_step = 0

    def epoch(self, train_loader):
        pbar = tqdm(train_loader)
        for images, labels in pbar:
            loss = self.criterion(self.model(images.cuda()), labels.cuda())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.global_step += 1
            pbar.set_postfix(loss=loss.item())

    def fit(self, train_loader):
        for epoch in range(100):
            self.epoch(train_loader)
"""
INLINE = """\
import torch
from tqdm import tqdm


def fit(model, optimizer, criterion, train_loader):
    step = 0
    for epoch in range(100):
        pbar = tqdm(enumerate(train_loader))
        for _, (images, labels) in pbar:
            loss = criterion(model(images.cuda()), labels.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            pbar.set_description(f"{loss.item():.3f}")
"""
SHOWN = "            pbar.set_postfix(loss=loss.item())\n"
DESCRIBED = '            pbar.set_description(f"{loss.item():.3f}")\n'


def _fixed(job: MakeJob, program: str) -> str:
    found = job({"train.py": program})
    assert found.repair("GPU305") == 1
    text: str = found.text("train.py")
    return text


def test_a_bar_of_the_epoch_is_thinned_by_its_own_steps(job: MakeJob) -> None:
    fixed = _fixed(job, METHOD)
    assert "        for step, (images, labels) in enumerate(pbar):\n" in fixed
    assert f"            if step % 50 == 0:\n    {SHOWN}" in fixed


def test_a_number_that_the_loop_has_is_taken(job: MakeJob) -> None:
    fixed = _fixed(job, INLINE.replace("for _, (", "for index, ("))
    assert f"            if index % 50 == 0:\n    {DESCRIBED}" in fixed


@pytest.mark.parametrize(
    ("program", "old", "new", "test"),
    [
        (METHOD, SHOWN, "            print(loss.item())\n", "self.global_step % 50 == 0"),
        (
            INLINE,
            "    for epoch in range(100):\n        pbar = tqdm(enumerate(train_loader))\n        for _, (images, labels) in pbar:",
            "    pbar = tqdm(range(100))\n    for epoch in pbar:\n        for images, labels in train_loader:",
            "step % 50 == 0",
        ),
    ],
)
def test_another_log_goes_on_by_the_number_that_goes_on(
    program: str, old: str, new: str, test: str, job: MakeJob
) -> None:
    assert program.count(old) == 1
    assert f"if {test}:\n" in _fixed(job, program.replace(old, new))


def test_a_bar_of_rounds_that_get_no_number_stays(job: MakeJob) -> None:
    names = "    step = batch_idx = step_index = None\n"
    program = METHOD.replace("        pbar = tqdm", f"    {names}        pbar = tqdm")
    assert "no step number" in job({"train.py": program}).refusal("GPU305")
