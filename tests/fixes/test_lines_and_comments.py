"""Edits keep the statements of a line together, and comments with the lines that they are about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MakeJob = Callable[..., Any]


def test_two_statements_of_a_line_stay_on_it(job: MakeJob) -> None:
    files = {
        "train.py": """\
import torch
from torch.utils.data import DataLoader

device = torch.device("cuda")
train_loader = DataLoader(Images("data"), batch_size=64, num_workers=4, pin_memory=True)
for images, labels in train_loader:
    images = images.to(device).float().contiguous().mul(255.0); labels = labels.to(device).long()
    loss = criterion(model(images), labels)
    loss.backward()
    optimizer.step()
"""
    }
    made = job(files)
    assert made.repair("GPU302")
    (line,) = [line for line in made.text("train.py").splitlines() if "images.to" in line]
    assert line.count("non_blocking=True") == 2


def test_a_line_is_put_above_the_comment_of_the_next_one(job: MakeJob) -> None:
    made = job(
        {
            "train.py": """\
from torch.nn.parallel import DistributedDataParallel

model = DistributedDataParallel(model, device_ids=[args.gpu])
for step, (x, y) in enumerate(train_loader):
    # a schedule by iterations
    # instead of epochs
    if step % 4 == 0:
        adjust(optimizer, step)
    loss = criterion(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True)) / 4
    loss.backward()
    if (step + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
"""
        }
    )
    assert made.repair("GPU353")
    assert (
        "    model.require_backward_grad_sync = (step + 1) % 4 == 0\n    # a schedule by iterations\n"
        "    # instead of epochs\n    if step % 4 == 0:\n"
    ) in made.text("train.py")


def test_the_comment_behind_goes_with_the_line(job: MakeJob) -> None:
    made = job(
        {
            "train.py": """\
import torch

device = torch.device("cuda")
# all batches
for x in loader:
    x = x.to(device)
    beta = torch.tensor([1.0, 1.2]).to(device)  # the factors of the paper
    sigma = 0.05  # temperature
    loss = (model(x) * beta).sum() / sigma
    loss.backward()
    optimizer.step()
"""
        }
    )
    assert made.repair("GPU306")
    assert (
        "beta = torch.tensor([1.0, 1.2]).to(device)  # the factors of the paper\n# all batches\nfor x in loader:\n"
        "    x = x.to(device)\n    sigma = 0.05  # temperature\n"
    ) in made.text("train.py")
