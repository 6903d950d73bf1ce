"""A large model makes steps long where it is the one that runs, not where an option offers it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpulint.cli import main

PROGRAM = """\
import argparse

import torch
import torchvision.models as models
from torch.utils.data import DataLoader

from data import Images
{tables}

def train(args):
{made}
    model = model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    total = 0.0
    for images, labels in DataLoader(Images(), batch_size=64, num_workers=8, pin_memory=True):
        output = model(images.cuda(non_blocking=True))
        loss = torch.nn.functional.cross_entropy(output, labels.cuda(non_blocking=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(total)


parser = argparse.ArgumentParser()
parser.add_argument("--arch", default={default!r}{choices})
train(parser.parse_args())
"""
DATA = "import torch\n\n\nclass Images(torch.utils.data.Dataset):\n    pass\n"
CHAIN = """\
    if args.arch == "small":
        model = models.resnet18()
    elif args.arch == "vit_l_16":
        model = models.vit_l_16()
    else:
        raise ValueError(args.arch)"""
ELSE = """\
    if args.arch == "small":
        model = models.resnet18()
    else:
        model = models.vit_l_16()"""
TABLE = '\nMODELS = {"small": models.resnet18, "large": lambda: models.vit_l_16()}\n'
NAMES = '\nNAMES = {"small": "resnet18", "large": "vit_l_16"}\n'
CHOICES = ', choices=["small", "vit_l_16"]'


def is_long(folder: Path, capsys: pytest.CaptureFixture[str], made: str, default: str, **parts: str) -> bool:
    """Whether the steps are said to be long."""
    filled = {"tables": "", "choices": "", **parts}
    (folder / "data.py").write_text(DATA)
    (folder / "train.py").write_text(PROGRAM.format(made=made, default=default, **filled))
    main(["scan", "--no-cache", "--impact", "low", "--select", "GPU305", "--output-format", "json", str(folder)])
    (found,) = json.loads(capsys.readouterr().out)
    return "long steps of a large model" in found["impact"]["basis"]


@pytest.mark.parametrize("made", [CHAIN, ELSE])
@pytest.mark.parametrize(("default", "long"), [("small", False), ("vit_l_16", True)])
def test_the_branch_of_the_default_decides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], made: str, default: str, long: bool
) -> None:
    assert is_long(tmp_path, capsys, made, default) is long


@pytest.mark.parametrize(
    ("made", "tables"),
    [("    model = MODELS[args.arch]()", TABLE), ("    model = models.get_model(NAMES[args.arch])", NAMES)],
)
@pytest.mark.parametrize(("default", "long"), [("small", False), ("large", True)])
def test_the_entry_of_the_default_decides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], made: str, tables: str, default: str, long: bool
) -> None:
    assert is_long(tmp_path, capsys, made, default, tables=tables) is long


@pytest.mark.parametrize("choices", [CHOICES, f"{CHOICES} + sorted(vars(models))"])
@pytest.mark.parametrize(("default", "long"), [("small", False), ("vit_l_16", True)])
def test_the_value_of_the_default_decides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], default: str, long: bool, choices: str
) -> None:
    assert is_long(tmp_path, capsys, "    model = models.get_model(args.arch)", default, choices=choices) is long


def test_a_job_that_passes_the_large_one_decides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job.sh").write_text("#!/bin/bash\n#SBATCH --gres=gpu:1\npython train.py --arch vit_l_16\n")
    assert is_long(tmp_path, capsys, CHAIN, "small")
