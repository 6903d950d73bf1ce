"""Loaders that loops make anew in each round, and loops that have one round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Declined, Fix

MakeJob = Callable[..., Any]

PROGRAM = """\
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms.functional import to_tensor


class Photos(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return to_tensor(Image.open(self.paths[index]).resize((224, 224)))


SEEDS = {seeds}
{more}
for seed in {loop}:
    for width in {widths}:
        torch.manual_seed(seed)
        model = Net(width).cuda()
        optimizer = torch.optim.Adam(model.parameters())
        loader = DataLoader(Photos(paths), batch_size=64)
        for epoch in range(60):
            for images in loader:
                loss = model(images.cuda()).mean()
                loss.backward()
                optimizer.step()
"""
MADE_IN_EPOCH = """\
from torch.utils.data import DataLoader


def train(model, optimizer, paths):
    for epoch in range(60):
        {loop}
        loader = DataLoader(Photos(paths), batch_size=64)
        for images in loader:
            model(images.cuda()).mean().backward()
            optimizer.step()
"""
MADE_IN_CALL = """\
from torch.utils.data import DataLoader


def pass_of(model, optimizer, paths):
    loader = DataLoader(Photos(paths), batch_size=64)
    for images in loader:
        model(images.cuda()).mean().backward()
        optimizer.step()


for epoch in range(60):
    pass_of(model, optimizer, paths)
"""
KEPT = """\
from torch.utils.data import DataLoader

loader = DataLoader(Photos(paths), batch_size=64)
for epoch in range(60):
    for images in loader:
        model(images.cuda()).mean().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("values", "once"),
    [
        ({"seeds": "[0]", "loop": "SEEDS", "widths": "[5]"}, True),
        ({"seeds": "(7,)", "loop": "enumerate(SEEDS)", "widths": "range(1)"}, True),
        ({"seeds": '{"a": 1}', "loop": "SEEDS.values()", "widths": "(5,)"}, True),
        ({"seeds": "[0, 1]", "loop": "SEEDS", "widths": "[5, 6]"}, False),
        ({"seeds": "[0]", "loop": "SEEDS", "widths": "[5, 6]", "more": "SEEDS.append(1)"}, False),
        ({"seeds": "[0]", "loop": "SEEDS", "widths": "[5, 6]", "more": "SEEDS += [1]"}, False),
        ({"seeds": "[*given]", "loop": "SEEDS", "widths": "[5, 6]"}, False),
    ],
)
def test_a_loop_of_one_round_makes_one_training(job: MakeJob, values: dict[str, str], once: bool) -> None:
    (found,) = job({"train.py": PROGRAM.format(**{"more": "", **values})}).scan("GPU303")
    assert isinstance(found.fix, Fix) is once, found.fix
    if not once:
        assert isinstance(found.fix, Declined) and "made anew for each" in found.fix.reason


@pytest.mark.parametrize(
    ("program", "lasting"),
    [
        (MADE_IN_EPOCH.format(loop="optimizer.zero_grad()"), False),
        (MADE_IN_EPOCH.format(loop="paths = drawn(epoch)"), False),
        (MADE_IN_CALL, False),
        (KEPT, True),
    ],
)
def test_workers_of_a_loader_that_each_epoch_makes_are_not_said_to_last(
    job: MakeJob, program: str, lasting: bool
) -> None:
    (found,) = job({"train.py": program}).scan("GPU303")
    assert ("for all epochs" in found.finding.help) is lasting, found.finding.help


REPLACED = """\
from torch.utils.data import DataLoader, Subset


class Selection:
    def __init__(self, model, photos):
        self.model, self.photos = model, photos

    def prepare(self, part):
        {before}
        self.part_loader = DataLoader(Subset(self.photos, part), batch_size=64)

    def score(self):
        for x in self.part_loader:
            self.model(x.cuda()).mean().backward()

    def select(self, parts):
        for part in parts:
            self.prepare(part)
            {call}
"""


@pytest.mark.parametrize(
    ("values", "lasting"),
    [
        ({}, False),
        ({"before": "part = sorted(part)", "call": "[self.score() for _ in range(1)]"}, False),
        ({"call": "for epoch in range(60):\n                self.score()"}, True),
    ],
)
def test_workers_do_not_outlive_a_loader_that_each_round_replaces(
    job: MakeJob, values: dict[str, str], lasting: bool
) -> None:
    usual = {"before": "self.count = len(part)", "call": "self.score()"}
    fix = job({"select.py": REPLACED.format(**usual | values)}).offer("GPU303")
    assert "num_workers=" in fix.edits[0].text
    assert ("persistent_workers=True" in fix.edits[0].text) is lasting


REPLACED_INSIDE = """\
from torch.utils.data import DataLoader, Subset


class Selection:
    def score(self):
        for x in self.part_loader:
            self.model(x.cuda()).mean().backward()

    def select(self, photos, parts):
        for part in parts:
            self.part_loader = DataLoader(Subset(photos, part), batch_size=64)
            {call}
"""
EPOCHS = "for epoch in range(60):\n                self.score()"


@pytest.mark.parametrize(("call", "lasting"), [("self.score()", False), (EPOCHS, True)])
def test_workers_of_a_loader_that_the_same_function_replaces(job: MakeJob, call: str, lasting: bool) -> None:
    text = REPLACED_INSIDE.format(call=call)
    fix = job({"select.py": text}).offer("GPU303")
    assert ("persistent_workers=True" in fix.edits[0].text) is lasting
