"""Copies of batches that are not in pinned memory: an option that lets them not wait gains nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Declined

MakeJob = Callable[..., Any]
PASS = """\
import argparse

import torch
from torch.utils.data import DataLoader
from torchvision import datasets


def passes(loader, net, criterion, optimizer, args):
    net = net.to(args.device)
    for batch in loader:
        x = batch[0].{cast}to(args.device)
        y = batch[1].to(args.device)
        loss = criterion(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main(args):
    args.device = "cuda" if torch.cuda.is_available() else args.other
{made}
    passes(loader, net, torch.nn.CrossEntropyLoss(), optimizer, args)
"""
KEPT = "    loader = DataLoader(datasets.MNIST('d'), 64, num_workers=4, **args.options)"
PINNED = "    loader = DataLoader(datasets.MNIST('d'), 64, num_workers=4, pin_memory=True)"
OPEN = "    loader = DataLoader(datasets.MNIST('d'), 64, num_workers=4)"


@pytest.mark.parametrize("cast", ["", "float()."])
def test_a_loader_that_cannot_be_pinned_leaves_its_copies(job: MakeJob, cast: str) -> None:
    results = job({"train.py": PASS.format(cast=cast, made=KEPT)}).scan("GPU302")
    assert results and all(isinstance(result.fix, Declined) for result in results)


@pytest.mark.parametrize(("made", "pins"), [(PINNED, 0), (OPEN, 1)])
def test_one_that_pins_memory_or_can_makes_them_go_on(job: MakeJob, made: str, pins: int) -> None:
    fix = job({"train.py": PASS.format(cast="", made=made)}).scan("GPU302")[0].fix
    texts = [edit.text for edit in fix.edits]
    assert sum("pin_memory" in text for text in texts) == pins
    assert any("non_blocking=True" in text for text in texts)


GIVEN = """\
import torch
from torch.utils.data import DataLoader
{made}

def passes(net, loader, criterion, optimizer, device):
    net = net.to(device)
    for batch in loader:
        x = batch[0].to(device)
        y = batch[1].to(device)
        loss = criterion(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

{call}
"""


@pytest.mark.parametrize(
    ("made", "call", "is_known"),
    [
        ("", "", False),
        ("from loaders import make", "passes(net, make(), criterion, optimizer, torch.device('cuda'))", False),
        (
            "loader = DataLoader(data, 64, num_workers=4, pin_memory=True)",
            "passes(net, loader, criterion, optimizer, torch.device('cuda'))",
            True,
        ),
    ],
)
def test_copies_of_an_unknown_loader_go_on_waiting(job: MakeJob, made: str, call: str, is_known: bool) -> None:
    results = job({"train.py": GIVEN.format(made=made, call=call)}).scan("GPU302")
    assert results and all(isinstance(result.fix, Declined) is not is_known for result in results)


PLACED = """\
import torch
from torch.utils.data import DataLoader

loader = DataLoader(images, batch_size=256, num_workers=4)


def train(model, cuda=True):
    def place(value):
        if cuda:
            return value.{moved}
        return value

    model = place(model)
    for batch, target in loader:
        batch = place(batch)
        target = place(target)
        model(batch, target).sum().backward()
"""


def test_a_function_that_also_moves_the_model_goes_on_as_modules_take_no_option(job: MakeJob) -> None:
    for code in ("GPU301", "GPU302"):
        results = job({"train.py": PLACED.format(moved="cuda()")}).scan(code)
        fixes = [result.fix for result in results]
        assert fixes and not any("non_blocking" in edit.text for one in fixes for edit in getattr(one, "edits", ()))
    fix = job({"train.py": PLACED.format(moved="to('cuda')")}).scan("GPU302")[0].fix
    assert any("non_blocking=True" in edit.text for edit in fix.edits)  # which modules take here


TIMED = """\
import time

import torch
from torch.utils.data import DataLoader
from torchvision import datasets

net = Net().cuda()
times = []
seconds = 0
loader = DataLoader(datasets.MNIST('d'), 64, num_workers=4)
for x, y in loader:
    began = time.time()
    out = net(x.cuda())
{rest}
"""


@pytest.mark.parametrize(
    "rest",
    [
        "    times.append(time.time() - began)",
        "    took = time.time() - began\n    seconds += took",
        "    ended = time.time()\n    times.append((ended - began) / len(x))",
    ],
)
def test_copies_in_a_time_that_is_kept_stay(job: MakeJob, rest: str) -> None:
    results = job({"train.py": TIMED.format(rest=rest)}).scan("GPU301", "GPU302")
    assert results and all(isinstance(result.fix, Declined) for result in results)
    assert any("recorded number" in result.fix.reason for result in results)


@pytest.mark.parametrize(
    "rest",
    [
        "    loss = out.sum().item()\n    times.append(time.time() - began)",
        "    took = time.time() - began\n    print(took)",
    ],
)
def test_copies_in_other_times_go_on(job: MakeJob, rest: str) -> None:
    results = job({"train.py": TIMED.format(rest=rest)}).scan("GPU301")
    assert any("non_blocking=True" in edit.text for edit in results[0].fix.edits)


CONVERTS = """\
import torch
from torch.utils.data import DataLoader
from torchvision import datasets

net = Net().cuda()
for x, y in DataLoader(datasets.MNIST('d'), 64, num_workers=4):
    net(x.float().cuda()).sum().backward()
    optimizer.step()
"""


def test_a_fix_that_swaps_a_conversion_says_so(job: MakeJob) -> None:
    fix = job({"train.py": CONVERTS}).scan("GPU301")[0].fix
    first, _, second = fix.description.partition(", and ")
    assert first == "pin the loader's batches in host memory, copy them without blocking the host"
    assert second.startswith("convert the batch on the GPU")


def test_variables_that_are_set_to_each_other_are_followed_to_an_end(job: MakeJob) -> None:
    program = """\
import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

loader = DataLoader(datasets.ImageFolder("d", transforms.ToTensor()), batch_size=64, num_workers=4, pin_memory=True)
model = torch.nn.Linear(3, 3).cuda()


def step(first, second):
    for _ in range(3):
        first = second
        second = first
        first = first.to("cuda")
        model(first).mean().backward()
        optimizer.step()


for images, others in loader:
    step(torch.cat([images, others]), torch.cat([others, images]))
    others = others.cuda()
"""
    found = job({"train.py": program}).scan("GPU302")
    assert 20 in [one.finding.span.line for one in found]
