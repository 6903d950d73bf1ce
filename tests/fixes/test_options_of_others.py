"""Workers by an option: one that the program itself has, not a module that it imports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

MakeJob = Callable[..., Any]

IMPORTED = """\
import argparse


def add_options(parser):
    parser.add_argument("--num_workers", type=int, default=8)


def norm(x):
    return x / 255


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    add_options(parser)
    print(parser.parse_args().num_workers)
"""
PROGRAM = """\
import argparse

import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms.functional import to_tensor

from helper import add_options, norm


class Photos(Dataset):
    def __init__(self, names):
        self.names = names

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        return norm(to_tensor(Image.open(self.names[index])))


def main(args):
    model = torch.nn.Linear(8, 8).cuda()
    loader = DataLoader(Photos(open(args.names).read().split()), batch_size=args.batch_size, num_workers=0)
    for epoch in range(9):
        for x in loader:
            model(x.cuda()).sum().backward()
            optimizer.step()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--names", default="names.txt")
    parser.add_argument("--batch_size", type=int, default=64)
    main(parser.parse_args())
"""


@pytest.mark.parametrize(
    "more",
    ["", "    add_options(parser)\n"],
)
def test_options_of_an_imported_module_are_those_of_the_program_if_it_adds_them(job: MakeJob, more: str) -> None:
    program = PROGRAM.replace("    main(parser.", f"{more}    main(parser.")
    offer = job({"train.py": program, "helper.py": IMPORTED}).offer("GPU303")
    written = " ".join(edit.text for edit in offer.edits)
    assert ("args.num_workers" in written) is bool(more)
    assert ("4" in written) is not bool(more)
