"""Sizes of batches in a file of defaults that all configurations of the tree, or some of them, set otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assessment.scans import bases

PROGRAM = """\
import argparse

import torch
import yaml
from torch.utils.data import DataLoader


def load_config(path, default_path):
    with open(path) as file:
        special = yaml.safe_load(file)
    with open(default_path) as file:
        config = yaml.safe_load(file)
    merge(config, special)
    return config


def merge(first, second):
    for key, value in second.items():
        if isinstance(value, dict):
            merge(first.setdefault(key, {}), value)
        else:
            first[key] = value


parser = argparse.ArgumentParser()
parser.add_argument("config")
config = load_config(parser.parse_args().config, "configs/default.yaml")
loader = DataLoader(torch.load("data"), batch_size=config["training"]["batch_size"], num_workers=4)
model = torch.nn.Linear(512, 2).cuda()
for epoch in range(90):
    for images, labels in loader:
        torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda()).backward()
"""
SIZE = "training:\n  batch_size: {}\n  lr: 0.1\n"
NO_SIZE = "training:\n  lr: 0.2\n"


@pytest.mark.parametrize(
    ("files", "phrase"),
    [
        ({}, "batches of 64 "),
        ({"first.yaml": SIZE.format(3), "second/photos.yaml": SIZE.format(12)}, "batches from"),
        ({"first.yaml": SIZE.format(12), "second/photos.yaml": SIZE.format(12)}, "batches of 12 "),
        ({"first.yaml": SIZE.format(12), "second.yaml": NO_SIZE}, "batches from"),
        ({"first.yaml": NO_SIZE, "second.yaml": NO_SIZE}, "batches of 64 "),
        ({"logging.yaml": "handlers:\n  batch_size: 3\n"}, "batches of 64 "),
        ({"first.yaml": SIZE.format(12), "main.yaml": "defaults:\n  - training: default\n"}, "batches of 64 "),
    ],
)
def test_what_other_configurations_set_counts_for_defaults(tmp_path: Path, files: dict[str, str], phrase: str) -> None:
    given = {"default.yaml": SIZE.format(64), **files}
    tree = {"train.py": PROGRAM, **{f"configs/{name}": text for name, text in given.items()}}
    assert phrase in bases(tmp_path, tree, "GPU301")[0]
