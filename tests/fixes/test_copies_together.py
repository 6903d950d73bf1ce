"""Copies of one step are changed together or not at all, and loaders of one function are pinned together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Declined

MakeJob = Callable[..., Any]

PASS = """\
import torch
from torch.utils.data import DataLoader
from torchvision import datasets

loader = DataLoader(datasets.MNIST('d'), 64, num_workers=4, pin_memory=True)
net, optimizer = torch.nn.Linear(4, 2).cuda(), None


def train(name):
    for x, y in loader:
{copies}
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()


train("a")
"""
BRANCHES = """\
        if name == "a":
            x = x.float().cuda()
        elif name == "b":
            x = x.float().cuda(){first}
        else:
            x = x.float().cuda().view(64, -1)
        y = y.cuda()
{after}"""


def test_the_same_copy_of_all_branches_is_changed(job: MakeJob) -> None:
    made = job({"train.py": PASS.format(copies=BRANCHES.format(first=".flatten(1)", after=""))})
    (first, *_) = made.scan("GPU302")
    assert sum("non_blocking" in edit.text for edit in first.fix.edits) == 4
    assert made.repair("GPU302") > 0
    assert made.text("train.py").count("x.cuda(non_blocking=True).float()") == 3


BARRIER = "        torch.cuda.synchronize()\n"


@pytest.mark.parametrize(
    ("after", "stays"),
    [
        (BARRIER, True),
        ("        x.requires_grad_()\n" + BARRIER, True),
        ("        net(x)\n" + BARRIER, False),
        ("        print(len(y))\n", False),
    ],
)
def test_copies_right_above_a_barrier_have_nothing_to_overlap_with(job: MakeJob, after: str, stays: bool) -> None:
    found = job({"train.py": PASS.format(copies=BRANCHES.format(first="", after=after))}).scan("GPU302")
    assert found and all(isinstance(one.fix, Declined) is stays for one in found)
    if stays:
        assert "waits for all work of the GPU right after it" in found[0].fix.reason


@pytest.mark.parametrize(
    ("moved", "stays"), [("(y < 0.5).cuda()", True), ("(y * 2).cuda()", True), ("(net.limit < 0.5).cuda()", False)]
)
def test_what_is_computed_where_it_is_moved_waits_beside_the_copies(job: MakeJob, moved: str, stays: bool) -> None:
    copies = f"        x = x.cuda()\n        mask = {moved}\n        y = y.cuda()"
    found = job({"train.py": PASS.format(copies=copies)}).scan("GPU302")
    assert found and all(isinstance(one.fix, Declined) is stays for one in found)


def test_lines_that_go_on_stay_below_the_parenthesis_after_a_conversion_has_left(job: MakeJob) -> None:
    copies = "        x = x['a_rather_long_name_of_a_part_of_the_batch'].long().to(net.device('first'))"
    made = job({"train.py": PASS.format(copies=copies)})
    assert made.repair("GPU302") > 0
    lines = made.text("train.py").splitlines()
    at = next(number for number, line in enumerate(lines) if "a_rather_long_name" in line)
    assert lines[at + 1].strip() == "non_blocking=True).long()"
    assert lines[at + 1].index("non_blocking") == lines[at].index(".to(") + len(".to(")


LOADERS = """\
import torch
from torch.utils.data import DataLoader, random_split
from torchvision import datasets


def loaders(dataset):
    first, second = random_split(dataset, [0.5, 0.5])
    val_loader = DataLoader(first, 64, num_workers=4)
    test_loader = DataLoader(second, 64, num_workers=4)
    {returned}


def evaluate(net):
    {taken} = loaders(datasets.MNIST('d'))
    for x, y in test_loader:
        net(x.cuda())
    return val_loader


evaluate(torch.nn.Linear(4, 2).cuda())
"""


@pytest.mark.parametrize(
    ("returned", "taken", "pins"),
    [
        ("return val_loader, test_loader", "val_loader, test_loader", 2),
        ("return test_loader", "val_loader = test_loader", 1),
    ],
)
def test_loaders_that_a_function_returns_together_are_pinned_together(
    job: MakeJob, returned: str, taken: str, pins: int
) -> None:
    made = job({"train.py": LOADERS.format(returned=returned, taken=taken)})
    assert made.repair("GPU302") == 1
    assert made.text("train.py").count("pin_memory=") == pins


@pytest.mark.parametrize(
    ("copy", "moved"),
    [
        (
            "(x\n            .float()\n            .cuda())",
            "(x\n            .cuda(non_blocking=True)\n            .float())",
        ),
        ("(x).float().cuda()", "(x.cuda(non_blocking=True)).float()"),
        (
            "x.to(torch.float32  # exact\n        ).cuda()",
            "x.cuda(non_blocking=True).to(torch.float32  # exact\n        )",
        ),
    ],
)
def test_conversions_move_behind_the_copy_in_any_layout(job: MakeJob, copy: str, moved: str) -> None:
    made = job({"train.py": PASS.format(copies=f"        x = {copy}\n        y = y.cuda()")})
    assert made.repair("GPU302") > 0
    assert f"x = {moved}\n" in made.text("train.py")
