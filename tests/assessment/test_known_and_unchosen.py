"""What costs little because its author knows it, because nothing chooses it, or because a metric rests on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import HEAD, IMAGES, IN_USE, TRAINING, WAITS, bases, levels

READS = """\
{comment}    log("loss", loss.item())
    log("top", loss.max().item())
    log("low", loss.min().item())
    log("mean", loss.mean().item())
"""


@pytest.mark.parametrize(
    ("comment", "level"),
    [
        ("    # NOTE: a bunch of host-device syncs, so we do this last.\n", "low"),
        ("    # These calls synchronize with the GPU.\n", "low"),
        ("    # .item() blocks the pipeline\n    loss = loss.detach()\n", "medium"),
        ("    # item stalls the GPU\n    loss = loss.detach()\n", "low"),
        ("    # TODO: GPU syncs\n", "medium"),
        ("    # sync gradients of all ranks\n", "medium"),
        ("    # host-device syncs\n\n", "medium"),
    ],
)
def test_a_comment_that_names_the_synchronisation_is_about_the_block_below(
    tmp_path: Path, comment: str, level: str
) -> None:
    found = bases(tmp_path, {"train.py": WAITS + READS.format(comment=comment)}, "GPU305")
    assert {one.partition(",")[0] for one in found} == {level}
    assert all(("a comment names the synchronisation" in one) is (level == "low") for one in found)


METHODS = """\
class Base:
    def __init__(self, net):
        self.net = net

class Usual(Base):
    def forward(self, images):
        return self.net(images)

class Baseline(Base):
    def __init__(self, net):
        super().__init__(net)
        self.table = net.table

    def forward(self, images):
        rows = [self.table[one.item()] for one in images.argmax(1)]
        return self.net(images, rows)
"""

CHOICE = """\
import argparse
import torch
from net import Net
from methods import Baseline, Usual

parser = argparse.ArgumentParser()
parser.add_argument("--method", default="{default}")
args = parser.parse_args()
if args.method == "baseline":
    model = Baseline(Net().cuda())
else:
    model = Usual(Net().cuda())
for images, labels in loader:
    loss = model.forward(images.cuda()).mean()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("default", "level"), [("usual", "low"), ("baseline", "medium")])
def test_a_class_that_only_another_choice_makes_costs_little(tmp_path: Path, default: str, level: str) -> None:
    (found,) = bases(tmp_path, {"methods.py": METHODS, "train.py": CHOICE.format(default=default)}, "GPU305")
    assert found.startswith(level)
    assert ("a choice that is not the default" in found) is (level == "low")


SCORES = """\
class Scores:
    def sufficiency(self, images, picked):
        kept = [(images == picked).float().mean().item() for _ in range(30)]
        return kept
"""

WAY = """\
import argparse
import torch
from net import Net
from parts import Scores

parser = argparse.ArgumentParser()
parser.add_argument("--scheduler", default="{default}")
args = parser.parse_args()
model, scores = Net().cuda(), Scores()
for epoch in range(90):
    for images, labels in loader:
        images = images.cuda()
        if args.scheduler == "sufficiency":
            keep(scores.sufficiency(images, images.detach()))
        loss = model(images).mean()
        loss.backward()
        optimizer.step()
with torch.no_grad():
    for images, labels in val_loader:
        images = images.cuda()
        keep(scores.sufficiency(images, model(images)))
"""


@pytest.mark.parametrize(("default", "level"), [("epoch", "low"), ("sufficiency", "medium")])
def test_what_each_step_calls_only_for_another_choice_costs_little(tmp_path: Path, default: str, level: str) -> None:
    (found,) = bases(tmp_path, {"parts.py": SCORES, "train.py": WAY.format(default=default)}, "GPU305")
    assert found.startswith(level), found


@pytest.mark.parametrize(
    ("beside", "level"),
    [
        ({"prepare.py": "root = 'C:\\\\Users\\\\ada\\\\photos'\n"}, "low"),
        ({"prepare.py": "root = 'C:\\\\Users\\\\ada\\\\photos'\n", "split.py": "root = '/data/photos'\n"}, "high"),
        ({"tools/prepare.py": "root = 'C:\\\\Users\\\\ada\\\\photos'\n"}, "low"),
        ({"tools/prepare.py": "# root = 'C:\\\\Users\\\\ada\\\\photos'\nroot = 'photos'\n"}, "high"),
        ({"prepare.py": "root = 'photos'\n"}, "high"),
    ],
)
def test_programs_beside_it_tell_where_one_without_a_guard_runs(
    tmp_path: Path, beside: dict[str, str], level: str
) -> None:
    (found,) = bases(tmp_path, {"train.py": HEAD + IMAGES + TRAINING, **beside}, "GPU303")
    assert found.startswith(level)
    assert ("__main__" in found) is (level == "low")


SEGMENTS = """\
import torch
from torch.utils.data import DataLoader
from torchvision.transforms import Resize
from net import Net
{imports}

def {name}(predicted, target):
    {body}

train_loader = DataLoader(train_set, batch_size=4, shuffle=True, num_workers=4)
val_loader = DataLoader(val_set, batch_size=1, num_workers=4)
model = Net().cuda()
for epoch in range(90):
    for images, masks in train_loader:
        loss = model(Resize((256, 256))(images.cuda()), masks.cuda())
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        total, scores = 0, []
        for images, masks in val_loader:
            predicted = model(images.cuda())
            {use}
"""
_WHOLE = "return (predicted & target).sum() / (predicted | target).sum()"
_EACH = "return (predicted & target).sum(dim=(1, 2)) / (predicted | target).sum(dim=(1, 2))"


@pytest.mark.parametrize(
    ("name", "body", "use", "low"),
    [
        ("calculate_iou", _WHOLE, "total += calculate_iou(predicted, masks)", True),
        ("dice", _WHOLE, "score = dice(predicted, masks)\n            scores.append(score)", True),
        ("f1_score", _WHOLE, "scores.append(float(f1_score(predicted, masks)))", True),
        ("calculate_iou", _EACH, "total += calculate_iou(predicted, masks).mean()", False),
        ("dice_loss", _WHOLE, "total += dice_loss(predicted, masks)", False),
        ("accuracy", "return (predicted == target).float().mean()", "total += accuracy(predicted, masks)", False),
        ("update_iou", _WHOLE, "update_iou(predicted, masks)", False),
    ],
)
def test_a_ratio_over_each_batch_that_is_averaged_may_need_single_samples(
    tmp_path: Path, name: str, body: str, use: str, low: bool
) -> None:
    program = SEGMENTS.format(imports="", name=name, body=body, use=use)
    (found,) = bases(tmp_path, {"train.py": program}, "GPU202")
    assert ("scores may be those of larger batches" in found) is low
    assert ("seldom worth a change" in found) is not low


MADE = """\
import torch
from net import Net

model = Net().cuda()
for images, labels in loader:
    images = images.cuda()
    {lines}
    loss = model(images, mean).mean()
    loss.backward()
    optimizer.step()
"""
_MEAN = "mean = torch.zeros(3).cuda()"
_ALWAYS, _BRANCH = "every step", "every step that gets there"


@pytest.mark.parametrize(
    ("lines", "basis", "often"),
    [
        (f"{_MEAN}\n    std = torch.ones(3).cuda()", "2 tensors are", [_ALWAYS] * 2),
        (f"if old:\n        {_MEAN}\n    else:\n        {_MEAN}", "a tensor is", [_BRANCH] * 2),
        (
            f"if old:\n        {_MEAN}\n    else:\n        {_MEAN}\n    {_MEAN}",
            "2 tensors are",
            [_BRANCH] * 2 + [_ALWAYS],
        ),
        (
            f"if old:\n        {_MEAN}\n    elif new:\n        {_MEAN}\n    else:\n        {_MEAN}",
            "a tensor is",
            [_BRANCH] * 3,
        ),
    ],
)
def test_of_two_branches_only_the_larger_counts(tmp_path: Path, lines: str, basis: str, often: list[str]) -> None:
    found = bases(tmp_path, {"train.py": MADE.format(lines=lines)}, "GPU306")
    expected = [f"low, {one}, {basis} made on the host and copied" for one in often]
    assert len(found) == len(expected) and all(map(str.startswith, found, expected)), found


CALLED = """\
import torch
from net import Net

model = Net().cuda()


def fused(x):
    start = torch.zeros(3).cuda()
    return model(x, start), torch.ones(3).cuda()


def plain(x):
    return model(x, torch.zeros(4).cuda()), torch.ones(5).cuda()


for images, labels in loader:
    images = images.cuda()
    {lines}
    loss = output.mean() + scale.sum()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("lines", "count", "often"),
    [
        (
            "if old:\n        output, scale = fused(images)\n    else:\n        output, scale = plain(images)",
            2,
            [_BRANCH] * 4,
        ),
        ("output, scale = fused(images)\n    output, scale = plain(images)", 4, [_ALWAYS] * 4),
        (
            "if old:\n        output, scale = fused(images)\n    output, scale = plain(images)",
            4,
            [_BRANCH] * 2 + [_ALWAYS] * 2,
        ),
    ],
)
def test_calls_in_two_branches_are_not_added_up(tmp_path: Path, lines: str, count: int, often: list[str]) -> None:
    found = bases(tmp_path, {"train.py": CALLED.format(lines=lines)}, "GPU306")
    expected = [f"low, {one}, {count} tensors are made on the host and copied" for one in often]
    assert len(found) == len(expected) and all(map(str.startswith, found, expected)), found


NUMBERED = """\
import argparse
import torch
from net import Net

parser = argparse.ArgumentParser()
parser.add_argument("--method", default={default}, type=int)
args = parser.parse_args()
model = Net().cuda()
stage = 0
for images, labels in loader:
    loss = model(images.cuda()).mean()
    loss.backward()
    optimizer.step()
    if {test} == 1:
        first += loss.item()
        second += images.cuda().mean().item()
        third += images.cuda().max().item()
    stage = stage + 1
"""


@pytest.mark.parametrize(
    ("default", "test", "chosen"),
    [(0, "args.method", False), (1, "args.method", True), (0, "stage", True)],
)
def test_choices_may_be_numbered_but_counters_choose_nothing(
    tmp_path: Path, default: int, test: str, chosen: bool
) -> None:
    files = {"net.py": "", "train.py": NUMBERED.format(default=default, test=test)}
    assert bool(levels(tmp_path, files, "GPU305")) is chosen


ASKED = """\
import argparse
import torch
from torch.utils.data import DataLoader

def train(model, loader, optimizer):
    total = 0
    for images, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        total += loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return total

def main(args):
    model = make().cuda()
    if args.{option}:
        for epoch in range(10):
            train(model, DataLoader(data, num_workers=8), torch.optim.SGD(model.parameters()))

parser = argparse.ArgumentParser()
parser.add_argument("--{option}", {kind})
main(parser.parse_args())
"""


@pytest.mark.parametrize(
    ("option", "kind", "command", "note", "level"),
    [
        ("train", 'action="store_true"', "train.py", "", "low"),
        ("do_train", "type=bool, default=False", "train.py --epochs=20 --data $DATA", "", "low"),
        ("train", 'action="store_true"', "train.py --train", "", "medium"),
        ("train", 'action="store_true"', 'train.py "$@"', "", "medium"),
        ("train", 'action="store_true"', "train.py $EXTRA", "", "medium"),
        ("train", 'action="store_true"', "train.py --seed 1 ${ARGS[@]}", "", "medium"),
        ("do_train", 'action="store_true"', "train.py", "Run `python train.py --do-train` first.", "medium"),
        ("train", "type=bool, default=True", "train.py", "", "medium"),
        ("train", 'action="store_true"', "other.py", "", "medium"),
    ],
)
def test_a_training_that_no_job_asks_for_costs_little(
    tmp_path: Path, option: str, kind: str, command: str, note: str, level: str
) -> None:
    files = {
        "train.py": IN_USE + ASKED.format(option=option, kind=kind),
        "job.sh": f"#!/bin/bash\n#SBATCH --gres=gpu:1\npython {command}\n",
        "README.md": note,
    }
    assert levels(tmp_path, files, "GPU204") == [level]
