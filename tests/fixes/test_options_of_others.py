"""Workers by an option: one that the program itself has, not a module that it imports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Fix

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


OTHER = """\


def trained(args):
    model = torch.nn.Linear(8, 8).cuda()
    loader = DataLoader(Photos(open(args.names).read().split()), batch_size=args.batch_size)
    for epoch in range(9):
        for x in loader:
            model(x.cuda()).sum().backward()
            optimizer.step()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--names", default="names.txt")
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--num_workers", type=int, default=8)
    trained(parser.parse_args())
"""
TRAIN = """\
import argparse

from loading import trained

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--names", default="names.txt")
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--num_workers", type=int, default=6)
    trained(parser.parse_args())
"""
_OPTION = '    parser.add_argument("--num_workers", type=int, default=6)\n'


@pytest.mark.parametrize(
    ("old", "new", "by_option"),
    [
        ("", "", True),
        (_OPTION, "", False),
        ("default=6)", "default=0)", False),
        ("default=6)", "default=int('6'))", False),
    ],
)
def test_an_option_that_each_program_declares(job: MakeJob, old: str, new: str, by_option: bool) -> None:
    loading = PROGRAM[: PROGRAM.index("\n\ndef main")].replace("from helper import add_options, norm\n", "") + OTHER
    files = {"loading.py": loading.replace("norm(", "("), "train.py": TRAIN.replace(old, new)}
    written = " ".join(edit.text for edit in job(files).offer("GPU303").edits)
    assert ("args.num_workers" in written) is by_option
    assert ("num_workers=4" in written) is not by_option


DATA = """\
import pytorch_lightning as pl
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms.functional import to_tensor


class Photos(Dataset):
    def __init__(self, names):
        self.names = names

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        return to_tensor(Image.open(self.names[index]))


class Data(pl.LightningDataModule):
    def __init__(self, names, num_workers=0):
        super().__init__()
        self.names = names
        self.num_workers = num_workers
{more}
    def train_dataloader(self):
        return DataLoader(Photos(self.names), batch_size=64, num_workers=self.num_workers)
"""
FIT = """\
import argparse

import pytorch_lightning as pl

from data import Data
from net import Net


def main(args):
    pl.Trainer(accelerator="gpu", max_epochs=90).fit(Net(), {made})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--names")
    {option}
    main(parser.parse_args())
"""
OPTION = 'parser.add_argument("--num_workers", type=int, default=0)'
OWN_OPTION = f"""
    @staticmethod
    def add_options(parser):
        {OPTION}
        return parser
"""
OWN_MAKER = """
    @classmethod
    def from_argparse_args(cls, args):
        return cls(args.names)
"""
BY_NAMESPACE = "Data.from_argparse_args(args)"


@pytest.mark.parametrize(
    ("made", "option", "more", "changed"),
    [
        (BY_NAMESPACE, OPTION, "", "train.py: 0 workers by default"),
        ("Data(**vars(args))", OPTION, "", "train.py: 0 workers by default"),
        ("Data(**args.__dict__)", OPTION, "", "train.py: 0 workers by default"),
        (BY_NAMESPACE, "Data.add_options(parser)", OWN_OPTION, "data.py: 0 workers by default"),
        # The default of the constructor is in force where nothing else says a number.
        (BY_NAMESPACE, "", "", "data.py"),
        (BY_NAMESPACE, OPTION, OWN_MAKER, "data.py"),
    ],
)
def test_the_default_of_an_option_is_in_force_where_a_constructor_gets_all_options(
    job: MakeJob, made: str, option: str, more: str, changed: str
) -> None:
    files = {"data.py": DATA.format(more=more), "train.py": FIT.format(made=made, option=option), "net.py": ""}
    made_job = job(files)
    [finding] = [result.finding for result in made_job.scan("GPU303")]
    [edit] = made_job.offer("GPU303").edits
    named = [f"{place.path.name}: {place.message}" for place in finding.related]
    assert named == ([changed] if ":" in changed else [])
    assert edit.path.name == changed.partition(":")[0]
    line = files[edit.path.name].splitlines()[edit.span.line - 1]
    assert ("add_argument" in line) is (":" in changed)


BASE = """\
class Source:
    def __init__(self, args):
        self.args = args
        self.num_workers = args.num_workers
"""
PHOTOS = """\
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms.functional import to_tensor

from base import Source


class Photos(Dataset):
    def __init__(self, names):
        self.names = names

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        return to_tensor(Image.open(self.names[index]))


class PhotoSource(Source):
    def make_loader(self):
        return DataLoader(Photos(open(self.args.names).read().split()), batch_size=64, num_workers=self.num_workers)
"""
DRAWINGS = """\
from base import Source


class DrawingSource(Source):
    def sizes(self):
        return [len(name) for name in open(self.args.names)]
"""
OTHER_PROGRAM = """\
import argparse

from drawings import DrawingSource

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--names", default="names.txt")
    parser.add_argument("--num_workers", type=int, default=0)
    print(DrawingSource(parser.parse_args()).sizes())
"""
OWN_PROGRAM = """\
import argparse

import torch

from photos import PhotoSource


def main(args):
    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(9):
        for x in PhotoSource(args).make_loader():
            model(x.cuda()).sum().backward()
            optimizer.step()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--names", default="names.txt")
    parser.add_argument("--num_workers", type=int, default=8)
    main(parser.parse_args())
"""


@pytest.mark.parametrize(
    ("number", "imported", "edited"),
    [
        ("8", "", []),
        ("0", "", ["train.py"]),
        ("8", "import photos\n", ["augment.py"]),
        ("8", "import importlib\n\nphotos = importlib.import_module('photos')\n", ["augment.py"]),
    ],
)
def test_options_of_programs_that_never_import_what_makes_the_loader(
    job: MakeJob, number: str, imported: str, edited: list[str]
) -> None:
    files = {
        "augment.py": imported + OTHER_PROGRAM,
        "base.py": BASE,
        "drawings.py": DRAWINGS,
        "photos.py": PHOTOS,
        "train.py": OWN_PROGRAM.replace("default=8", f"default={number}"),
    }
    found = job(files).scan("GPU303")
    assert [edit.path.name for one in found if isinstance(one.fix, Fix) for edit in one.fix.edits] == edited
    assert bool(found) is bool(edited)
