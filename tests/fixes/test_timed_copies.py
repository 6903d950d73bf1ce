"""Copies above a time that the program keeps, and copies beside those that a setting decides on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Declined, Fix, Safety

MakeJob = Callable[..., Any]

PASS = """\
import time

import torch
from torch.utils.data import DataLoader
from torchvision import datasets

loader = DataLoader(datasets.MNIST('d'), 64, num_workers=4, pin_memory=True)
net, total = torch.nn.Linear(4, 2).cuda(), 0


def moved(x):
    return x.cuda()


with torch.no_grad():
    for x, y in loader:
{body}
"""


@pytest.mark.parametrize("copy", ["x = x.cuda()", "x = moved(x)"])
@pytest.mark.parametrize(
    ("between", "kept", "safety"),
    [
        ("pass", "total += time.time() - began", Safety.UNSAFE),
        ("pass", "total += time_synchronized() - began", Safety.UNSAFE),
        ("print(x.sum().item())", "total += time.time() - began", Safety.SAFE),
        ("pass", "print(time.time() - began)", Safety.SAFE),
    ],
)
def test_a_time_below_a_copy_may_hold_its_end(job: MakeJob, copy: str, between: str, kept: str, safety: Safety) -> None:
    lines = (copy, between, "began = time.time()", "out = net(x)", kept)
    (found,) = job({"train.py": PASS.format(body="".join(f"        {line}\n" for line in lines))}).scan("GPU302")
    assert isinstance(found.fix, Fix) and found.fix.safety is safety
    assert ("the time that the program keeps" in found.fix.description) is (safety is Safety.UNSAFE)


SETTING = """\
from torch.utils.data import DataLoader
from torchvision import datasets

loader = DataLoader(datasets.MNIST('d'), 64, num_workers=4, pin_memory=True)


def send(y):
    return y.cuda()


def train(net, criterion, optimizer, config):
    for x, y in loader:
        x = x.cuda(non_blocking={setting})
        y = {copy}
        criterion(net(x), y).backward()
        optimizer.step()
"""
OFF = {"defaults.py": "config.train.loader.non_blocking = False\n"}


@pytest.mark.parametrize(
    ("setting", "copy", "files", "given"),
    [
        ("config.train.loader.non_blocking", "y.cuda()", {}, "non_blocking=config.train.loader.non_blocking"),
        ("config.train.loader.non_blocking", "y.cuda()", OFF, ""),
        ("config.train.loader.non_blocking", "send(y)", {}, ""),
        ("True", "y.cuda()", OFF, "non_blocking=True"),
        ("True", "send(y)", {}, "non_blocking=True"),
    ],
)
def test_a_copy_goes_by_the_setting_of_the_copy_beside_it(
    job: MakeJob, setting: str, copy: str, files: dict[str, str], given: str
) -> None:
    (found,) = job({**files, "train.py": SETTING.format(setting=setting, copy=copy)}).scan("GPU302")
    if given:
        assert isinstance(found.fix, Fix) and [edit.text for edit in found.fix.edits] == [given]
    else:
        assert isinstance(found.fix, Declined) and "decides whether the copies beside it wait" in found.fix.reason


BRANCHES = """\
import torch
from torch.utils.data import DataLoader
from torchvision import datasets

loader = DataLoader(datasets.MNIST('d'), 64, num_workers=4, pin_memory=True)


def train(net, criterion, optimizer, regression):
    net.cuda()
    for step, (x, y) in enumerate(loader):
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        out = net(x)
        loss = criterion(out, y)
        loss.backward()
        optimizer.step()
        if regression:
            value = {first}
        else:
            value = (out.argmax(1) == y).sum().item()
        if step % 100 == 0:
            print(value)
"""


@pytest.mark.parametrize(
    ("first", "made"), [("(out - y).square().sum().item()", "float"), ("(out.argmax(1) > 3).sum().item()", "int")]
)
def test_a_value_of_several_branches_is_read_as_what_fits_all_of_them(job: MakeJob, first: str, made: str) -> None:
    found = job({"train.py": BRANCHES.format(first=first)}).scan("GPU305")
    texts = [edit.text for one in found if isinstance(one.fix, Fix) for edit in one.fix.edits]
    assert f"{made}(value)" in texts and {text for text in texts if "(value)" in text} == {f"{made}(value)"}


@pytest.mark.parametrize(
    ("first", "made"), [("(out - y).square().sum().item()", "float"), ("(out.argmax(1) > 3).sum().item()", "int")]
)
@pytest.mark.parametrize("kept", ["self.sum += {}", "values.append({})"])
def test_sums_of_objects_and_lists_fit_all_branches(job: MakeJob, kept: str, first: str, made: str) -> None:
    text = BRANCHES.replace("def train(net", "class Trainer:\n  def train(self, net")
    text = text.replace(
        "    net.cuda()", "    net.cuda()\n    self.sum, values = 0, []\n    self.sum = 0\n    values = []"
    )
    text = text.replace("value = (out.argmax(1) == y).sum().item()", kept.format("(out.argmax(1) == y).sum().item()"))
    text = text.replace("value = {first}", kept.format(first)).replace("            print(value)", "            pass")
    text = text.replace("self.sum, values = 0, []\n    ", "") + "    print(f'{self.sum} of', values)\n"
    found = job({"train.py": text}).scan("GPU305")
    texts = " ".join(edit.text for one in found if isinstance(one.fix, Fix) for edit in one.fix.edits)
    other = {"int": "float", "float": "int"}[made]
    assert f"{made}(" in texts and f"{other}(" not in texts
