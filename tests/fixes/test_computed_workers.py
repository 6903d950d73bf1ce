"""Numbers of workers that a program computes and does not pass to its loader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

MakeJob = Callable[..., Any]

PROGRAM = """\
import argparse
import os

from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.datasets import ImageFolder

parser = argparse.ArgumentParser()
parser.add_argument("--num_workers", type=int, default=DEFAULT)


def main(args):
    SET
    loader = DataLoader(ImageFolder("data", transforms.RandomCrop(32)), batch_size=64, shuffle=True)
    for epoch in range(20):
        for images, labels in loader:
            criterion(model(images.cuda()), labels.cuda()).backward()
            optimizer.step()


if __name__ == "__main__":
    main(parser.parse_args())
"""
EITHER = """\
if args.num_workers == -1:
        num_workers = os.cpu_count() - 1
    else:
        num_workers = args.num_workers"""
MAYBE = """\
if args.num_workers != -1:
        num_workers = args.num_workers"""


def repaired(job: MakeJob, lines: str, default: int) -> str:
    made = job({"train.py": PROGRAM.replace("SET", lines).replace("DEFAULT", str(default))})
    made.repair("GPU303")
    return str(made.text("train.py"))


@pytest.mark.parametrize(
    ("lines", "default", "name"),
    [
        (EITHER, -1, "num_workers"),
        ("workers = min(8, os.cpu_count())", 0, "workers"),
        ("n_workers = args.num_workers or os.cpu_count()", 2, "n_workers"),
    ],
)
def test_a_loader_gets_what_the_program_computes(job: MakeJob, lines: str, default: int, name: str) -> None:
    text = repaired(job, lines, default)
    assert f"num_workers={name}" in text and f"persistent_workers={name} > 0" in text


@pytest.mark.parametrize(
    ("lines", "default"),
    [
        (MAYBE, -1),
        ("num_workers = args.num_workers", 0),
        ("num_workers = args.num_workers", -1),
        ("num_workers = os.cpu_count()\n    pool = Pool(num_workers)", -1),
        ("num_workers = count_nodes()", -1),
    ],
)
def test_variables_that_may_be_no_number_of_workers(job: MakeJob, lines: str, default: int) -> None:
    assert "num_workers=4" in repaired(job, lines, default)
