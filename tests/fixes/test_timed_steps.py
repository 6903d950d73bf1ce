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


TIMERS = """\
import time

import torch


class Timer:
    def __init__(self):
        self.total = 0.0

    def start(self):
        {wait}
        self.began = time.perf_counter()

    def stop(self):
        {wait}
        self.total += time.perf_counter() - self.began

    def __enter__(self):
        self.start_time = time.time()

    def __exit__(self, *failure):
        {wait}
        self.total += time.time() - self.start_time
"""
BY_METHODS = """\
import torch
from timers import Timer


def train(model, loader, optimizer):
    total, timer = 0.0, {made}
    for step, (x, y) in enumerate(loader):
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        loss = model(x, y)
        optimizer.zero_grad()
        timer.start()
        loss.backward()
        optimizer.step()
        {inside}
        timer.stop()
        {below}
    return total, timer.total
"""
BLOCK = """\
import torch
from timers import Timer


def train(model, loader, optimizer):
    total, timer = 0.0, Timer()
    for step, (x, y) in enumerate(loader):
        with timer:
            x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
            loss = model(x, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
    return total, timer.total
"""
ADDS = "total += loss.item()"
FILES = {"timers.py": TIMERS.format(wait="pass")}


@pytest.mark.parametrize("made", ["Timer()", "model.timer"])
def test_a_wait_stays_where_the_time_of_an_object_ends_at_it(job: MakeJob, made: str) -> None:
    text = BY_METHODS.format(made=made, inside=ADDS, below="pass")
    check_declined(job, "GPU305", {**FILES, "train.py": text}, "each step is timed up to this wait (`timer`)")


def test_a_wait_stays_in_a_block_that_is_timed(job: MakeJob) -> None:
    check_declined(job, "GPU305", {**FILES, "train.py": BLOCK}, "each step is timed up to this wait (timer)")


def test_a_wait_below_what_an_object_times_goes(job: MakeJob) -> None:
    made = job({**FILES, "train.py": BY_METHODS.format(made="Timer()", inside="pass", below=ADDS)})
    assert made.repair("GPU305") == 1
    assert "total += loss.detach()" in made.text("train.py")


def test_a_timer_that_waits_itself_needs_no_other_wait(job: MakeJob) -> None:
    timers = FILES["timers.py"].replace("pass", "torch.cuda.synchronize()")
    results = job({"timers.py": timers, "train.py": BY_METHODS.format(made="Timer()", inside=ADDS, below="pass")}).scan(
        "GPU305"
    )
    assert all("timed up to" not in getattr(result.fix, "reason", "") for result in results)


@pytest.mark.parametrize(
    ("first", "last"), [("self.began = time.time()", "self.times.append(time.time() - self.began)")]
)
def test_a_wait_stays_where_an_attribute_has_the_start(job: MakeJob, first: str, last: str) -> None:
    text = STEPS.replace("def train(model", "def train(self, model").format(first=first, last=last)
    check_declined(job, "GPU305", {"train.py": text}, "each step is timed up to this")


RANKS = """\
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("nccl")
model = DDP(torch.nn.Linear(4, 2).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
step = 0
while True:
    step += 1
    start = time.time()
    loss = model(torch.randn(256, 4, device="cuda")).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if dist.get_rank() == 0:
        print("step %d, loss %0.3f" % (step, loss))
    end = time.time()
    print("computation time: %.3f" % (end - start))
"""


def test_a_printed_loss_stays_where_it_ends_the_time_of_a_step(job: MakeJob) -> None:
    check_declined(job, "GPU305", {"train.py": RANKS}, "each step is timed up to this wait (end)")
