"""Logs of every step that stay as they are: a log every N steps would hide a result, or the program has an N."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fixes.training_jobs import check_declined

MakeJob = Callable[..., Any]

SUMMED = """\
import torch


def train(model, stream, data, optimizer):
    running = 0.0
    for step, (x, y) in enumerate(stream):
        loss = torch.nn.functional.cross_entropy(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
        loss.backward()
        optimizer.step()
        running += loss.item()
        print(running / {divisor})
    return {returned}
"""

SHORT = """\
import torch

model = torch.nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(model.parameters())


def train(batches):
    for step in range({steps}):
        loss = model(next(batches).cuda()).sum()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


{calls}
"""

OWN = """\
import torch

{above}

def train(model, loader, optimizer, {setting}):
    for step, x in enumerate(loader):
        loss = torch.sum(model(x.cuda(non_blocking=True)))
        loss.backward()
        optimizer.step()
        print(step, loss.item())
        {test}
"""

BOUNDARY = """\
import torch


def train(model, loader, optimizer, accelerator):
    {first}
    for step, x in enumerate(loader):
        loss = torch.sum(model(x.cuda(non_blocking=True)))
        loss.backward()
        if {boundary}:
            optimizer.step()
            optimizer.zero_grad()
            {raised}
            print(loss.item())
"""


def test_a_sum_that_is_whole_in_the_last_step_alone_stays_where_that_is_unknown(job: MakeJob) -> None:
    whole = {"train.py": SUMMED.format(divisor="len(data)", returned="model")}
    check_declined(job, "GPU305", whole, "nothing but this log shows `running` of a whole epoch")
    for divisor, returned in (("(step + 1)", "model"), ("len(data)", "running")):
        made = job({"train.py": SUMMED.format(divisor=divisor, returned=returned)})
        assert made.repair("GPU305") == 1
        assert "        if step % 50 == 0:\n            print(float(running) / " in made.text("train.py")


@pytest.mark.parametrize("steps", [20, 50])
def test_a_run_of_a_few_steps_shows_them_all(job: MakeJob, steps: int) -> None:
    once = {"train.py": SHORT.format(steps=steps, calls="train(batches)")}
    check_declined(job, "GPU305", once, f"the whole run has {steps} steps")
    again = job({"train.py": SHORT.format(steps=steps, calls="for epoch in range(99):\n    train(batches)")})
    assert again.repair("GPU305") == 1


@pytest.mark.parametrize(
    ("above", "setting", "test", "expected"),
    [
        ("", "print_freq", "if step % print_freq == 1:\n            torch.cuda.nvtx.mark('x')", "print_freq"),
        ("", "args", "if step % args.log_every == 1:\n            torch.cuda.nvtx.mark('x')", "args.log_every"),
        ("LOG_INTERVAL = 25\n", "args", "torch.cuda.nvtx.mark(str(step % LOG_INTERVAL))", "LOG_INTERVAL"),
        ("", "args", "if step % args.eval_interval == 1:\n            torch.cuda.nvtx.mark('x')", "50"),
        ("", "save_every", "if step % save_every == 1:\n            torch.cuda.nvtx.mark('x')", "50"),
    ],
)
def test_a_log_has_the_interval_of_the_program_for_logs(
    job: MakeJob, above: str, setting: str, test: str, expected: str
) -> None:
    made = job({"train.py": OWN.format(above=above, setting=setting, test=test)})
    assert made.repair("GPU305") == 1
    assert f"        if step % {expected} == 0:\n            print(step, loss.item())" in made.text("train.py")


@pytest.mark.parametrize("number", [1, 2])
def test_an_interval_of_the_program_that_is_too_small_is_named(job: MakeJob, number: int) -> None:
    text = OWN.format(
        above=f"log_every = {number}\n", setting="args", test="torch.cuda.nvtx.mark(str(step % log_every))"
    )
    check_declined(job, "GPU305", {"train.py": text}, f"`log_every` is the program's log interval, and it is {number}")


@pytest.mark.parametrize("boundary", ["accelerator.sync_gradients", "model.is_gradient_accumulation_boundary()"])
def test_where_gradients_are_added_up_only_a_number_of_optimizer_steps_will_do(job: MakeJob, boundary: str) -> None:
    text = BOUNDARY.format(boundary=boundary, first="pass", raised="pass")
    check_declined(job, "GPU305", {"train.py": text}, "the loop has no step number")
    made = job({"train.py": BOUNDARY.format(boundary=boundary, first="steps = 0", raised="steps += 1")})
    assert made.repair("GPU305") == 1
    assert "            if steps % 50 == 1:\n                print(loss.item())" in made.text("train.py")
