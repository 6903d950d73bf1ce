"""Small projects of which tests read the impact that their findings have."""

from __future__ import annotations

from pathlib import Path

from gpulint import engine, plugins
from gpulint.config import Config
from gpulint.impact import SELDOM, Impact
from gpulint.project import Project

HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from net import Net
"""

IN_USE = """\
import argparse
import logging

import wandb

set_seed(0)
"""
"""Signs of regular use, for trees with a README."""

TRAINING = """\
model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(90):
    for images, labels in loader:
        loss = nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()
        total += loss.item()
"""

IMAGES = """\
from PIL import Image

class Photos(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __getitem__(self, index):
        return transform(Image.open(self.paths[index]))

loader = DataLoader(Photos(paths), batch_size=128, shuffle=True)
"""


def scan(folder: Path, files: dict[str, str]) -> engine.Report:
    """The report of a tree."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    loaded = plugins.load()
    paths = sorted(folder / name for name in files)
    project = Project(folder, paths, Config(base=folder))
    report = engine.run(project, paths, [rule for rule in loaded.rules if rule.default])
    assert not report.errors, report.errors
    return report


def impacts(folder: Path, files: dict[str, str]) -> dict[str, list[Impact]]:
    """Impacts of a tree's findings, by the code of their rule."""
    found: dict[str, list[Impact]] = {}
    for result in scan(folder, files).results:
        found.setdefault(result.finding.rule.code, []).append(result.finding.impact)
    return found


def levels(folder: Path, files: dict[str, str], code: str) -> list[str]:
    """Levels of the findings of one rule, ``seldom`` where nothing but their kind makes them low."""
    found = impacts(folder, files).get(code, [])
    return ["seldom" if impact.basis.endswith(SELDOM) else str(impact.level) for impact in found]


NO_FIX = "no fix is offered"
"""What is said of waits that a person has to repair: they are one level lower."""


def costs_much(impact: dict[str, str]) -> bool:
    """Whether a printed impact is above the low level, or was before it was lowered for want of a fix."""
    return impact["level"] != "low" or NO_FIX in impact["basis"]


WAITS = """\
import torch
from net import Net

model, critic = Net().cuda(), Net().cuda()
for images, labels in loader:
    labels = labels.cuda()
    loss = model(images.cuda(), labels)
    loss.backward()
    optimizer.step()
"""


def bases(folder: Path, files: dict[str, str], code: str) -> list[str]:
    """Level and basis of the findings of a rule."""
    return [f"{one.level}, {one.basis}" for one in impacts(folder, {"net.py": "", **files})[code]]
