"""Totals of losses with their graphs, which take some memory of the host where the model is small, and it goes with
each epoch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import bases

NET = """\
from torch import nn
import torch.nn.functional as F

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, x):
        return x + F.relu(self.norm(self.conv(x)))

class Net(nn.Module):
    def __init__(self, depth=3):
        super().__init__()
        self.blocks = nn.ModuleList([Block(64) for _ in range({depth})])
        self.head = {head}

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((2, 3)))

    def features(self, x):
        return self.forward(x).sqrt()
"""

TRAIN = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

from net import Net

loader = DataLoader(data, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)
model = {model}
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
history = []
{before}for epoch in range(90):
{reset}    model = model.train()
    for images, labels in loader:
        images, labels = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
        optimizer.zero_grad()
        loss = {loss}
        loss.backward()
        optimizer.step()
        total += loss
    print(total / len(loader))
{after}"""

PLAIN = {
    "depth": "4", "head": "nn.Linear(64, 10)", "model": "Net().cuda()", "before": "", "reset": "    total = 0\n",
    "loss": "criterion(model(images), labels)", "after": "",
}  # fmt: skip
COMPUTE = """\
def compute(net, images, labels):
    return nn.functional.cross_entropy(net(images), labels)

"""


@pytest.mark.parametrize(
    ("changed", "level"),
    [
        ({}, "low"),
        ({"depth": "depth"}, "low"),  # by the default of the constructor
        ({"model": "nn.DataParallel(Net().cuda())"}, "low"),
        ({"model": "__import__('importlib').import_module('net').Net().cuda()"}, "low"),
        ({"after": "    history.append(total.item())\n"}, "low"),
        ({"loss": "criterion(model(images) + model(images.flip(3)), labels)"}, "low"),
        ({"loss": "compute(model, images, labels)", "before": COMPUTE, "depth": "120"}, "medium"),
        ({"loss": "criterion(model.features(images), labels)", "depth": "120"}, "medium"),
        ({"depth": "120"}, "medium"),
        ({"depth": "unknown"}, "medium"),
        ({"head": "nn.TransformerEncoder(layer, 24)"}, "medium"),
        ({"head": "timm.create_model('vit_base_patch16_224')"}, "medium"),
        ({"model": "make().cuda()"}, "medium"),  # of nobody knows what
        ({"reset": "", "before": "total = 0\n"}, "medium"),  # grows over all epochs
        ({"after": "    history.append(total)\n"}, "medium"),
        ({"after": "    history.append(total / len(loader))\n"}, "medium"),
        ({"loss": "criterion(sum(model(part) for part in images), labels)"}, "medium"),
    ],
)
def test_graphs_of_a_small_model_that_go_with_each_epoch_cost_little(
    tmp_path: Path, changed: dict[str, str], level: str
) -> None:
    parts = PLAIN | changed
    files = {"net.py": NET.format(**parts), "train.py": TRAIN.format(**parts)}
    (found,) = bases(tmp_path, files, "GPU204")
    assert found.partition(",")[0] == level
    assert ("KB of host memory a step until the epoch ends" in found) is (level == "low")


EPOCH = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

from net import Net

def train(model, loader, optimizer):
    total = 0
    for images, labels in loader:
        loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()
        total += loss
    return total / len(loader)

def main():
    loader = DataLoader(data, batch_size=32, shuffle=True)
    model = Net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for epoch in range(90):
        {use}

main()
"""


@pytest.mark.parametrize(
    ("use", "level"),
    [
        ("mean = train(model, loader, optimizer); print(mean)", "low"),
        ("mean = train(model, loader, optimizer); losses.append(mean.item())", "low"),
        ("mean = train(model, loader, optimizer); losses.append(mean)", "medium"),
        ("losses.append(train(model, loader, optimizer))", "medium"),
    ],
)
def test_a_total_that_callers_keep_grows_over_all_epochs(tmp_path: Path, use: str, level: str) -> None:
    files = {"net.py": NET.format(**PLAIN), "train.py": EPOCH.format(use=use)}
    (found,) = bases(tmp_path, files, "GPU204")
    assert found.partition(",")[0] == level


POINTS = """\
import torch
from torch import nn
import torch.nn.functional as F

def sample(xyz, count):
    chosen = torch.zeros(xyz.shape[0], count, dtype={dtype}).to(xyz.device)
    distance = torch.ones(xyz.shape[0], xyz.shape[1]) * 1e10
    farthest = torch.randint(0, xyz.shape[1], (xyz.shape[0],))
    for i in range(count):
        chosen[:, i] = farthest
        distance = torch.min(distance, torch.sum((xyz - xyz[:, farthest]) ** 2, -1))
        farthest = torch.max(distance, -1)[1]
    return chosen

class Group(nn.Module):
    def __init__(self, count, widths):
        super().__init__()
        self.count = count
        self.convs = nn.ModuleList()
        for i in range(len(widths)):
            convs = nn.ModuleList()
            for width in widths[i]:
                convs.append(nn.Conv2d(3, width, 1))
            self.convs.append(convs)

    def forward(self, xyz):
        index = sample(xyz, self.count)
        x = xyz[index]
        for i in range(len(self.convs)):
            for j in range(len(self.convs[i])):
                conv = self.convs[i][j]
                x = F.relu(conv(x))
        return x

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.group = Group(1024, {widths})

    def forward(self, xyz):
        return self.group(xyz)
"""


@pytest.mark.parametrize(
    ("widths", "dtype", "level"),
    [
        ("[[16, 16, 32], [32, 32, 64]]", "torch.long", "low"),
        ("[[16] * depth, [32, 32, 64]]", "torch.long", "medium"),  # of unknown length
        ("[[16, 16, 32], [32, 32, 64]]", "torch.float", "medium"),  # the samples may have a graph
        (f"[{[16] * 60}, {[32] * 60}]", "torch.long", "medium"),
    ],
)
def test_layers_of_nested_lists_are_counted(tmp_path: Path, widths: str, dtype: str, level: str) -> None:
    net = POINTS.replace("{widths}", widths).replace("{dtype}", dtype)
    (found,) = bases(tmp_path, {"net.py": net, "train.py": TRAIN.format(**PLAIN)}, "GPU204")
    assert found.partition(",")[0] == level


@pytest.mark.parametrize(("name", "level"), [("xyz", "low"), ("new_xyz", "low"), ("x", "medium")])
def test_what_is_computed_of_coordinates_alone_has_no_graph(tmp_path: Path, name: str, level: str) -> None:
    work = "".join(f"    near = ({name} - {number}) ** 2\n" for number in range(250))
    head = f"import torch\nfrom torch import nn\n\ndef near({name}):\n{work}    return near\n"
    net = (
        f"{head}\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.layer = nn.Linear(3, 10)\n\n"
        "    def forward(self, points):\n        return self.layer(near(points))\n"
    )
    (found,) = bases(tmp_path, {"net.py": net, "train.py": TRAIN.format(**PLAIN)}, "GPU204")
    assert found.partition(",")[0] == level
