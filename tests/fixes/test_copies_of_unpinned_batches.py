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
