"""Programs that read an option that their parser does not declare."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import bases

PROGRAM = """\
import argparse

import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms
from torchvision.models import resnet50
{imports}

class Photos(Dataset):
    def __init__(self, paths, part):
        self.paths = torch.load(paths)[part]

    def __getitem__(self, index):
        return transforms.ToTensor()(Image.open(self.paths[index])), 0

    def __len__(self):
        return len(self.paths)


def parse_args():
    parser = argparse.ArgumentParser("training")
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("-b", "--batch", "--batch-size", type=int, default=8)
    parser.add_argument("folder")
    {options}
    return parser.parse_args()


def main(args):
    {before}
    rows = Photos(args.folder, {read})
    loader = DataLoader(rows, batch_size=128, shuffle=True)
    model = resnet50().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.learning_rate)
    for epoch in range(90):
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    {start}
"""
GROUP = 'group = parser.add_argument_group("data")\n    group.add_argument("--area", type=int)'
SPLIT = """\
def get_parser():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--learning_rate", type=float)
    return parser

"""


def found(folder: Path, files: dict[str, str] | None = None, **parts: str) -> str:
    """Level and basis of the loader without workers."""
    given = {"imports": "", "options": "", "before": "", "read": "args.area", "start": "main(parse_args())", **parts}
    (basis,) = bases(folder, {**(files or {}), "train.py": PROGRAM.format(**given)}, "GPU303")
    return basis


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"start": "args = parse_args()\n    main(args)"},
        {"before": "args = parse_args()"},
        {"options": GROUP.replace("--area", "--region")},
        {"options": 'parser.set_defaults(folder="data")'},
        {"before": "print(vars(args))"},
        {"imports": SPLIT, "start": "parser = get_parser()\n    main(parser.parse_args())"},
        {"imports": SPLIT, "start": "main(get_parser().parse_args())"},
        {"imports": SPLIT, "start": "args = get_parser()\n    args = args.parse_args()\n    main(args)"},
    ],
)
def test_an_option_that_no_call_declares_raises_an_error(tmp_path: Path, parts: dict[str, str]) -> None:
    basis = found(tmp_path, **parts)
    assert basis.startswith("low")
    assert "raises an error" in basis


@pytest.mark.parametrize(
    "parts",
    [
        {"read": "args.batch"},
        {"read": "args.learning_rate"},
        {"read": 'getattr(args, "area", 0)'},
        {"read": "args.area if args.batch else 0"},
        {"options": 'parser.add_argument("--area")'},
        {"options": 'parser.add_argument("-a", "--region", dest="area")'},
        {"options": GROUP},
        {"options": "parser.set_defaults(area=1)"},
        {"options": 'for name in NAMES: parser.add_argument(f"--{name}")', "imports": "from settings import NAMES"},
        {"options": "add_data(parser)", "imports": "from settings import add_data"},
        {"options": GROUP.replace("--area", "--region") + "\n    add(group)", "imports": "from settings import add"},
        {"options": "sub = parser.add_subparsers()"},
        {"options": 'parser.add_argument("--file", action=Load)', "imports": "from settings import Load"},
        {"before": "args.area = 3"},
        {"before": "vars(args).update(json.load(open(args.folder)))", "imports": "import json"},
        {"before": "for key in CONFIG: setattr(args, key, CONFIG[key])", "imports": "from settings import CONFIG"},
        {"before": "args = complete(args)", "imports": "from settings import complete"},
        {"before": "complete(args)", "imports": "from settings import complete"},
        {"start": "main(parse_args())\n    spawn(main)", "imports": "from settings import spawn"},
        {"before": 'if not hasattr(args, "area"): return'},
        {"start": "main(parse_args() if ready else other())", "imports": "from settings import other, ready"},
        {"imports": SPLIT, "start": "args, rest = get_parser().parse_known_args()\n    main(args)"},
        {"start": "main(parse_args())\n    main(Other())", "imports": "from settings import Other"},
        {
            "imports": SPLIT,
            "start": 'parser = get_parser()\n    parser.add_argument("--area")\n    main(parser.parse_args())',
        },
    ],
)
def test_an_option_that_may_be_there_is_none_that_fails(tmp_path: Path, parts: dict[str, str]) -> None:
    basis = found(tmp_path, **parts)
    assert "raises an error" not in basis
    assert not basis.startswith("low")


def test_a_function_of_another_file_may_set_an_option(tmp_path: Path) -> None:
    files = {"setup.py": "def prepare(args):\n    args.{name} = 3\n"}
    parts = {"imports": "from setup import prepare", "before": "prepare(args)"}
    for name, fails in (("area", False), ("other", True)):
        text = {path: text.replace("{name}", name) for path, text in files.items()}
        assert ("raises an error" in found(tmp_path, text, **parts)) is fails


SHARED = """\
import torch
from torch import nn


def train(loader, model, optimizer, args):
    {first}
    for step, (images, labels) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        loss.backward()
        for group in optimizer.param_groups:
            group["lr"] *= 0.9
        optimizer.step()
        if {test}:
            if args.rank == 0:
                print(loss.item())
    {last}
"""
ALONE = """\
import argparse

import torch
from PIL import Image
from shared import train
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms
from torchvision.models import resnet50


class Photos(Dataset):
    def __init__(self, paths):
        self.paths = torch.load(paths)

    def __getitem__(self, index):
        return transforms.ToTensor()(Image.open(self.paths[index])), 0

    def __len__(self):
        return len(self.paths)


def main():
    parser = argparse.ArgumentParser("training")
    parser.add_argument("folder")
    args = parser.parse_args()
    {before}
    loader = DataLoader(Photos(args.folder), batch_size=128, shuffle=True)
    model = resnet50().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(90):
        train(loader, model, optimizer, args=args)


if __name__ == "__main__":
    main()
"""
OF_RANKS = """\
import argparse

import torch
from shared import train


def main(rank, args):
    args.rank = rank
    model = torch.nn.Linear(2, 2).cuda(rank)
    train(torch.load("batches"), model, torch.optim.SGD(model.parameters(), lr=0.1), args)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    torch.multiprocessing.spawn(main, args=(parser.parse_args(),))
"""


@pytest.mark.parametrize(
    ("parts", "fails"),
    [
        ({}, True),
        ({"test": "step % args.every == 0 or step == len(loader) - 1"}, True),
        ({"test": "step % 50 == 1"}, False),
        ({"test": "step == len(loader) - 1"}, False),
        ({"test": "step", "last": "print(args.rank)"}, False),
        ({"test": "step", "first": "print(args.rank)"}, True),
        ({"first": "step = args.folder"}, False),
        ({"before": "args.rank = 0"}, False),
        ({"before": 'vars(args).update({"rank": 0})'}, False),
    ],
)
def test_only_the_program_that_sets_an_option_gets_through_a_function(
    tmp_path: Path, parts: dict[str, str], fails: bool
) -> None:
    given = {"before": "", "first": "", "test": "step % 50 == 0", "last": "", **parts}
    files = {"shared.py": SHARED.format(**given), "alone.py": ALONE.format(**given), "ranks.py": OF_RANKS}
    (basis,) = bases(tmp_path, files, "GPU303")
    assert ("raises an error" in basis) is fails
    assert basis.startswith("low") is fails


MODEL = """\
from base import Coder


class Reader(Coder):
    def __init__(self, size, args):
        super(Reader, self).__init__(size, {handed})

    def forward(self, rows):
        return [row.item() for row in self.head(rows).mean(1)]
"""
OF_MODEL = """\
from torch import nn


class Coder(nn.Module):
    def __init__(self, size, args):
        super().__init__()
        self.head = nn.Linear(size, 10)
        {read}
"""
MAKES = """\
import argparse

import torch
from model import Reader


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--evaluate", action="store_true")
    parser.add_argument("--size", type=int, default=64)
    args = parser.parse_args()
    {before}
    if not args.evaluate:
        model = Reader(args.size, args).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for rows in torch.utils.data.DataLoader(torch.load("rows"), 64, num_workers=4, pin_memory=True):
            values = model(rows.cuda())
            loss = model.head(rows.cuda()).mean() * sum(values)
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
"""
OTHER = MAKES.replace('"--size"', '"--kind"')


@pytest.mark.parametrize(
    ("parts", "fails"),
    [
        ({}, True),
        ({"before": 'setattr(model_config, "size", args.size)'}, True),
        ({"before": 'setattr(args, "kind", "b")'}, False),
        ({"before": 'setattr(args, "ki" + "nd", "b")'}, False),
        ({"before": 'args.kind = "b"'}, False),
        ({"read": "if size > 64 and args.kind: print(size)"}, False),
        ({"read": 'if getattr(args, "kind", ""): print(size)'}, False),
        ({"handed": "make()"}, False),
        ({"read": "if args.size: print(size)"}, False),
    ],
)
def test_the_methods_of_a_class_that_cannot_be_made_do_not_run(
    tmp_path: Path, parts: dict[str, str], fails: bool
) -> None:
    given = {"before": "", "handed": "args", "read": "if args.kind: print(size)", **parts}
    files = {"model.py": MODEL.format(**given), "base.py": OF_MODEL.format(**given), "train.py": MAKES.format(**given)}
    (basis,) = [basis for basis in bases(tmp_path, files, "GPU305") if "inner loop" in basis]
    assert ("reads an option that the program lacks" in basis) is fails
    assert basis.startswith("low") is fails


def test_another_program_may_make_a_class(tmp_path: Path) -> None:
    given = {"before": "", "handed": "args", "read": "if args.kind: print(size)"}
    files = {"model.py": MODEL.format(**given), "base.py": OF_MODEL.format(**given), "train.py": MAKES.format(**given)}
    found = bases(tmp_path, {**files, "other.py": OTHER.format(**given)}, "GPU305")
    assert not any("reads an option that the program lacks" in basis for basis in found)
