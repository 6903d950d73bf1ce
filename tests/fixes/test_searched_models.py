"""Searches for unused parameters: which models may not need one, and which are left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fixes.training_jobs import check_declined

MakeJob = Callable[..., Any]
WRAPPED = """\
    model = DistributedDataParallel(model, find_unused_parameters=True)
    for x in loader:
        model(x.cuda()).mean().backward()
"""
TABLE = """\
from transformers import {imported}
from torch.nn.parallel import DistributedDataParallel

CLASSES = {{
{entries}
}}


def train(args, model, loader):
{wrapped}

def main(args):
    model_class, tokenizer_class = CLASSES[args.model_type]
    train(args, model_class.from_pretrained(args.name).cuda(), load(tokenizer_class))
"""
BERT = '    "bert": (BertForSequenceClassification, BertTokenizer),'
XLNET = '    "xlnet": (XLNetForSequenceClassification, XLNetTokenizer),'
UNKNOWN = {
    "one of several classes of a table": TABLE.format(
        imported="BertForSequenceClassification, BertTokenizer, XLNetForSequenceClassification, XLNetTokenizer",
        entries=f"{BERT}\n{XLNET}",
        wrapped=WRAPPED,
    ),
    "a class that a function finds": f"""\
from registry import find_model
from torch.nn.parallel import DistributedDataParallel


def main(config, loader):
    Model = find_model(config["model"])
    model = Model(**config["options"]).cuda()
{WRAPPED}""",
    "a class of a module that is imported by name": f"""\
import importlib

from torch.nn.parallel import DistributedDataParallel


def main(config, loader):
    home = importlib.import_module(config["module"])
    Model = getattr(home, config["name"])
    model = Model(**config["options"]).cuda()
{WRAPPED}""",
    "what a file of settings names": f"""\
from hydra.utils import instantiate
from torch.nn.parallel import DistributedDataParallel


def main(config, loader):
    model = instantiate(config.model).cuda()
{WRAPPED}""",
    "a table without known entries": f"""\
from registry import MODELS
from torch.nn.parallel import DistributedDataParallel


def main(config, loader):
    model = MODELS[config.name](config).cuda()
{WRAPPED}""",
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_models_whose_class_is_not_known_keep_their_search(job: MakeJob, case: str) -> None:
    check_declined(job, "GPU351", {"train.py": UNKNOWN[case]}, "decided at run time")


KNOWN = {
    "the only class of a table": TABLE.format(
        imported="BertForSequenceClassification, BertTokenizer", entries=BERT, wrapped=WRAPPED
    ),
    "classes of the tree": f"""\
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x)


MODELS = {{"wide": Wide}}


def main(args, loader):
    model = MODELS[args.model]().cuda()
{WRAPPED}""",
    "a class of a library": f"""\
from torchvision.models import resnet50
from torch.nn.parallel import DistributedDataParallel


def main(args, loader):
    model = resnet50().cuda()
{WRAPPED}""",
}


@pytest.mark.parametrize("case", KNOWN)
def test_models_of_a_known_class_need_none(job: MakeJob, case: str) -> None:
    assert len(job({"train.py": KNOWN[case]}).offer("GPU351").edits) == 1


PAIR = """\
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

backbone, head = nn.Linear(4, 4).cuda(), nn.Linear(4, 2).cuda()
backbone = DDP(backbone, find_unused_parameters=True)
head = DDP(head{search})
for x in loader:
    head(backbone(x.cuda())).mean().backward()
"""


def test_one_of_two_models_that_is_searched_was_chosen(job: MakeJob) -> None:
    check_declined(job, "GPU351", {"train.py": PAIR.format(search="")}, "another model is wrapped there")
    both = job({"train.py": PAIR.format(search=", find_unused_parameters=True")})
    assert [len(result.fix.edits) for result in both.scan("GPU351")] == [1, 1]


BRANCHES = """\
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def wrap(args, loader):
    model = nn.Linear(4, 2)
    if args.gpu is not None:
        model.cuda(args.gpu)
        model = DistributedDataParallel(model, device_ids=[args.gpu], find_unused_parameters=True)
    else:
        model.cuda()
        # DDP divides batches among all{reason}
        model = DistributedDataParallel(model, find_unused_parameters=True)
    for x in loader:
        model(x.cuda()).mean().backward()
"""


@pytest.mark.parametrize(("reason", "edits"), [("", 2), ("; it is needed for the frozen layers", 1)])
def test_both_branches_that_wrap_a_model_change_together(job: MakeJob, reason: str, edits: int) -> None:
    first, *_ = job({"train.py": BRANCHES.format(reason=reason)}).scan("GPU351")
    assert len(first.fix.edits) == edits


INHERITED = """\
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 8)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        return self.classify(self.body(x))

    def classify(self, x):
        return self.head(x)


class Other(Base):
    def __init__(self):
        {init}
        self.first = nn.Linear(8, 4)

    {method}


model = Other().cuda()
model = DistributedDataParallel(model, find_unused_parameters=True)
for x in loader:
    model(x.cuda()).mean().backward()
"""
OVERRIDDEN = {
    "a method that forward calls": "def classify(self, x):\n        return self.first(x)",
    "forward itself": "def forward(self, x):\n        return self.first(self.body(x))",
    "forward with a method of the base": "def forward(self, x):\n        return self.first(self.rest(x))\n\n"
    "    def rest(self, x):\n        return self.body(x)",
}
USED = {
    "one that also calls that of the base": (
        "super().__init__()",
        "def classify(self, x):\n        return self.first(x) + super().classify(x)",
    ),
    "a layer that is removed again": (
        "super().__init__()\n        del self.head",
        "def classify(self, x):\n        return self.first(x)",
    ),
    "a layer that is replaced by one without parameters": (
        "super().__init__()\n        self.head = nn.Identity()",
        "def classify(self, x):\n        return self.first(x)",
    ),
    "a constructor that does not make the layers of the base": (
        "nn.Module.__init__(self)\n        self.body = nn.Linear(8, 8)\n        self.head = None",
        "def classify(self, x):\n        return self.first(x)",
    ),
    "a frozen layer": (
        "super().__init__()\n        self.head.requires_grad_(False)",
        "def classify(self, x):\n        return self.first(x)",
    ),
}


@pytest.mark.parametrize("what", OVERRIDDEN)
def test_a_layer_of_a_base_that_is_no_longer_read_needs_the_search(job: MakeJob, what: str) -> None:
    text = INHERITED.format(init="super().__init__()", method=OVERRIDDEN[what])
    check_declined(job, "GPU351", {"train.py": text}, "never reads `Other.head`")


@pytest.mark.parametrize("what", USED)
def test_layers_of_a_base_that_get_a_gradient_or_need_none_do_not(job: MakeJob, what: str) -> None:
    init, method = USED[what]
    made = job({"train.py": INHERITED.format(init=init, method=method)})
    assert made.repair("GPU351") == 1


OUTSIDE = """\
import torch
from torch.nn.parallel import DistributedDataParallel as DDP
from {package} import Net
from net import Head

network = Net(8)
head = Head()
parts = [Net(8) for _ in range(2)]
{wrapped}
for x in loader:
    head(network(x.cuda())).mean().backward()
    optimizer.step()
"""
PART = """\
import torch

class Head(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)

    def forward(self, x):
        return self.layer(x)
"""
BOTH = """\
network = DDP(network.to(rank), find_unused_parameters=True)
head = DDP(head, find_unused_parameters=True)"""


@pytest.mark.parametrize(
    "wrapped",
    [
        "network = DDP(network, find_unused_parameters=True)",
        "parts[0] = DDP(parts[0], find_unused_parameters=True)",
        BOTH,
    ],
)
def test_a_model_of_a_package_that_is_not_there_keeps_its_search(job: MakeJob, wrapped: str) -> None:
    made = job({"train.py": OUTSIDE.format(package="weather.arch", wrapped=wrapped), "net.py": PART})
    assert made.scan("GPU351")
    assert made.repair("GPU351") == 0


@pytest.mark.parametrize(("package", "fixes"), [("timm.models", 2), ("net", 2)])
def test_models_of_known_libraries_and_of_the_tree_do_not(job: MakeJob, package: str, fixes: int) -> None:
    net = PART + PART.removeprefix("import torch\n").replace("class Head", "class Net")
    made = job({"train.py": OUTSIDE.format(package=package, wrapped=BOTH), "net.py": net})
    assert made.repair("GPU351") == fixes
