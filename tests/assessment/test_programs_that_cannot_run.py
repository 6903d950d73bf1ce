"""Findings in branches that never run, in programs that raise an error before they train, and in what leaves a model on
the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import HEAD, IMAGES, bases, levels, scan

PHOTOS = IMAGES.partition("loader =")[0]
CHAIN = """\
def loaders(options):
    if options.view == "plain":
        loader = None
    elif {above}:
        loader = None
    elif {test}:
        loader = DataLoader(Photos(paths), batch_size=64, shuffle=True, num_workers=0)
    else:
        loader = DataLoader(Photos(paths), batch_size=64, shuffle=True, num_workers=0)
    return loader


loader = loaders(options)
"""
TRAINING = """\
model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(90):
    for images, labels in loader:
        loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()
"""
NET = "from torch.nn import Linear as Net\n"


@pytest.mark.parametrize(
    ("above", "test", "runs"),
    [
        ('options.view == "crop"', 'options.view == "crop"', False),
        ('options.view in ("crop", "flip")', 'options.view == "crop"', False),
        ('options.view == "crop" or options.fast', 'options.view == "crop" and options.tiny', False),
        ("not options.fast", "not options.fast", False),
        ('options.name.startswith("vit")', 'options.name.startswith("vit")', False),
        ('options.view == "crop"', 'options.view in ("plain", "crop")', False),
        ('options.view == "crop"', 'options.view == "flip"', True),
        ('options.view == "crop" and options.fast', 'options.view == "crop"', True),
        ("options.take()", "options.take()", True),
        ('options.view == "crop"', 'options.view in ("flip", "crop")', True),
        ('options.view == "crop"', 'options.other == "crop"', True),
    ],
)
def test_a_branch_whose_test_failed_above_never_runs(tmp_path: Path, above: str, test: str, runs: bool) -> None:
    program = HEAD + PHOTOS + CHAIN.format(above=above, test=test) + TRAINING
    found = levels(tmp_path, {"net.py": NET, "train.py": program}, "GPU303")
    assert len(found) == 1 + runs
    assert runs or found[0] in ("medium", "high")  # the first branch that runs leads


MATCH = """\
match options.view:
    case "crop":
        loader = None
    case "{name}":
        loader = DataLoader(Photos(paths), batch_size=64, shuffle=True, num_workers=0)
"""


@pytest.mark.parametrize(("name", "found"), [("crop", 0), ("flip", 1)])
def test_a_case_that_is_repeated_never_runs(tmp_path: Path, name: str, found: int) -> None:
    program = HEAD + PHOTOS + MATCH.format(name=name) + TRAINING
    assert len(levels(tmp_path, {"net.py": NET, "train.py": program}, "GPU303")) == found


DEBUG = """\
import torch
from torch import nn

torch.autograd.set_detect_anomaly(True)


class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.layer = nn.Linear(width, 2)

    def forward(self, x):
        return self.layer(x)

{more}
"""
FAILS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from net import Net


class Rows(Dataset):
    def __init__(self, folder):
        self.rows = torch.load(folder)

    def __getitem__(self, index):
        return self.rows[index]


def train(model, loader, optimizer):
    for images, labels in loader:
        loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()


def main():
    rows = Rows("rows.pt"{given})
    model = Net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(90):
        train(model, DataLoader(rows, 8), optimizer)


if __name__ == "__main__":
    main()
"""
TRIES = 'if __name__ == "__main__":\n    print(Net()(torch.randn(2, 8)).shape)\n'


@pytest.mark.parametrize(
    ("more", "programs", "fails"),
    [
        ("", {"train.py": ", sparse=True"}, True),
        (TRIES, {"train.py": ", sparse=True"}, True),
        ("", {"train.py": ", sparse=True", "pretrain.py": ', "more"'}, True),
        ("", {"train.py": ", sparse=True", "pretrain.py": ""}, False),
        ("", {"train.py": ""}, False),
        (TRIES, {"train.py": ""}, False),
    ],
)
def test_a_module_that_only_failing_programs_import(
    tmp_path: Path, more: str, programs: dict[str, str], fails: bool
) -> None:
    files = {name: FAILS.replace("{given}", given) for name, given in programs.items()}
    (found,) = bases(tmp_path, {**files, "net.py": DEBUG.format(more=more)}, "GPU414")
    assert ("raises an error" in found) is fails
    assert found.startswith("low") is fails


MODEL = """\
import torch
from torchvision.models import resnet50
{imports}
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def create():
    model = resnet50(weights=None)
    return model


def restore(model):
    model.load_state_dict(torch.load("last.pt", map_location=device))
    model.to(device)
    return model
"""
STEPS = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from model import create, device
{imports}
{photos}

def train(model, loader, criterion, optimizer):
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()


def main():
    loader = DataLoader(Photos(paths), batch_size=64, shuffle=True, num_workers=0)
    model = create()
    {moves}
    criterion = nn.CrossEntropyLoss().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(90):
        train(model, loader, criterion, optimizer)


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("imports", "moves", "stays"),
    [
        ("", "model.train()", True),
        ("", "model.requires_grad_(True)", True),
        ("", "print(torch.arange(3).to(device))", True),
        ("", "model.to(device)", False),
        ("", "model.to(0)", False),
        ("", "model.to(**placed)", False),
        ("", "[one.to(device) for one in (model,)]", False),
        ("", "model = model.to(device)", False),
        ("", "model.cuda()", False),
        ("", "model = nn.DataParallel(model)", False),
        ("from model import restore", "model = restore(model)", False),
        ("import model as models", "model = models.restore(model)", False),
        ("from accelerate import Accelerator", "model = Accelerator().prepare(model)", False),
        ("from place import place", "model = place(model, device=device)", False),
    ],
)
def test_a_model_that_stays_on_the_cpu(tmp_path: Path, imports: str, moves: str, stays: bool) -> None:
    program = STEPS.format(imports=imports, moves=moves, photos=PHOTOS)
    files = {"model.py": MODEL.format(imports=""), "train.py": program}
    found = bases(tmp_path, files, "GPU303")
    assert ["its model stays on the CPU" in one for one in found] == [stays]
    assert found[0].startswith("low") is stays


@pytest.mark.parametrize(
    ("folder", "outdated"),
    [
        ("scrapped_code/", True),
        ("graveyard/", True),
        ("attic/", True),
        ("Old code/", True),
        ("junk/", True),
        ("useless slurms and scripts/", True),
        ("no_longer_needed/", True),
        ("garbage/", True),
        ("garbage_classification/", False),
        ("scrapped_data/", False),
        ("retired_people/", False),
        ("threshold/", False),
    ],
)
def test_folders_of_what_is_no_longer_used(tmp_path: Path, folder: str, outdated: bool) -> None:
    program = STEPS.format(imports="", moves="model.to(device)", photos=PHOTOS)
    files = {f"{folder}model.py": MODEL.format(imports=""), f"{folder}train.py": program}
    (found,) = bases(tmp_path, files, "GPU303")
    assert ("an old version" in found) is outdated


LOSS = """\
import torch
from torch import nn


def score(output, labels):
    loss = nn.functional.cross_entropy(output, labels)
    parts = output[:, 0].mean(), output[:, 1].mean(), output[:, 2].mean()
    return loss, {{
        "loss": loss.item(),
        "first": parts[0].item(),
        "second": parts[1].item(),
        "third": parts[2].item(),
        "accuracy": (output.argmax(1) == labels).float().mean().item(),
    }}

{tries}
"""
USES = """\
import torch
from torch.utils.data import DataLoader

from data import {name}
from loss import score
from net import Net

model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(90):
    for images, labels in DataLoader({name}(), 8):
        loss, logs = score(model(images.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()
"""
DATA = "from torch.utils.data import Dataset\n\n\nclass Pairs(Dataset):\n    pass\n"
TRY = 'if __name__ == "__main__":\n    print(score(torch.randn(2, 3), torch.zeros(2).long())[1])\n'


@pytest.mark.parametrize(
    ("name", "tries", "fails"),
    [
        ("Triples", "", True),
        ("Triples", TRY, True),
        ("Triples", "def train(output, labels):\n    score(output, labels)[0].backward()\n", False),
        ("Pairs", TRY, False),
    ],
)
def test_a_function_that_its_module_tries(tmp_path: Path, name: str, tries: str, fails: bool) -> None:
    files = {"data.py": DATA, "net.py": NET, "loss.py": LOSS.format(tries=tries), "train.py": USES.format(name=name)}
    found = bases(tmp_path, files, "GPU305")
    assert len(found) == 1
    assert ("imports what a module does not define" in found[0]) is fails
    assert found[0].startswith("low") is fails


TWICE = """\
import os

import torch
import torch.multiprocessing as mp
from torch import distributed


def work(rank, count):
    {port}
    distributed.init_process_group("nccl", rank=rank, world_size=count)
    for images in loader:
        model(images.cuda(rank)).sum().backward()
        optimizer.step()


if __name__ == "__main__":
    count = torch.cuda.device_count()
    n_gpus = count
    {start}
"""
SPAWN = "mp.spawn(work, args=(n_gpus,), nprocs=n_gpus)"


@pytest.mark.parametrize(
    ("command", "port", "start", "level"),
    [
        ("python -m torch.distributed.launch --nproc_per_node=4", 'os.environ["MASTER_PORT"] = "12355"', SPAWN, "low"),
        (
            "torchrun --nproc_per_node 4",
            'os.environ["MASTER_PORT"] = "12355"',
            f"if n_gpus > 1:\n        {SPAWN}",
            "low",
        ),
        ("torchrun --nproc_per_node gpu", 'os.environ["MASTER_PORT"] = "12355"', SPAWN, "low"),
        ("python", 'os.environ["MASTER_PORT"] = "12355"', SPAWN, "high"),
        ("torchrun --nproc_per_node 4", "pass", SPAWN, "high"),
        (
            "torchrun --nproc_per_node 4",
            'os.environ["MASTER_PORT"] = "12355"',
            f'if "LOCAL_RANK" in os.environ:\n        work(int(os.environ["LOCAL_RANK"]), 4)\n    else:\n        {SPAWN}',
            "high",
        ),
        (
            "torchrun --nproc_per_node 4",
            'os.environ["MASTER_PORT"] = "12355"',
            f"if args.spawn:\n        {SPAWN}\n    else:\n        work(0, 1)",
            "high",
        ),
    ],
)
def test_a_program_whose_processes_are_started_twice_ends_at_once(
    tmp_path: Path, command: str, port: str, start: str, level: str
) -> None:
    job = f"#!/bin/bash\n#SBATCH --gres=gpu:4\nexport TORCH_DISTRIBUTED_DEBUG=DETAIL\n{command} train.py\n"
    report = scan(tmp_path, {"train.py": TWICE.format(port=port, start=start), "job.sh": job})
    found = [one.finding for one in report.results if one.finding.rule.code == "GPU414"]
    assert [str(one.impact.level) for one in found] == [level]
