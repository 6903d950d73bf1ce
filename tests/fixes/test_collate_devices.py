"""Collate functions that take the device of the tensors which they are given: workers make those on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Declined, Fix

MakeJob = Callable[..., Any]

PROGRAM = """\
from functools import partial

import torch
from PIL import Image
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset


class Photos(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return load(Image.open(self.paths[index]))


COLLATE


loader = DataLoader(Photos(paths), batch_size=64, shuffle=True, pin_memory=True, collate_fn=NAMED)
model = model.cuda()
for epoch in range(90):
    for x, mask in loader:
        loss = criterion(model(x.cuda(non_blocking=True)), mask.cuda(non_blocking=True))
        loss.backward()
        optimizer.step()
"""
THROUGH_NAMES = """\
def collate(batch):
    first = batch[0]
    device = first.device
    mask = torch.zeros(len(batch), 9, device=device)
    return pad_sequence(batch), mask"""
INDEXED = """\
def collate(batch):
    return pad_sequence(batch), torch.zeros(len(batch), 9, device=batch[0].device)"""
KEYED = """\
def collate(batch):
    lengths = torch.tensor([len(one["x"]) for one in batch]).to(batch[0]["x"].device)
    return pad_sequence([one["x"] for one in batch]), lengths"""
HELPER = """\
def masked(padded):
    return torch.zeros(padded.shape[:2], device=padded.device)


class Collator:
    def __call__(self, batch):
        padded = pad_sequence(batch)
        return padded, masked(padded).to(padded.device)"""
CHOSEN = """\
device = torch.device("cuda")


def collate(batch):
    return pad_sequence(batch), torch.zeros(len(batch), 9, device=device)"""
OF_A_MODEL = """\
def collate(model, batch):
    device = model.device
    return pad_sequence(batch).to(device), torch.zeros(len(batch), 9)"""
SET_ANEW = """\
def collate(batch):
    device = batch[0].device
    if torch.cuda.is_available():
        device = torch.device("cuda")
    return pad_sequence(batch), torch.zeros(len(batch), 9, device=device)"""


def _made(job: MakeJob, collate: str, named: str) -> list[Any]:
    text = PROGRAM.replace("COLLATE", collate).replace("NAMED", named)
    return [result.fix for result in job({"train.py": text}).scan("GPU303")]


@pytest.mark.parametrize(
    ("collate", "named"),
    [(THROUGH_NAMES, "collate"), (INDEXED, "collate"), (KEYED, "collate"), (HELPER, "Collator()")],
)
def test_the_device_of_a_sample_is_the_cpu(job: MakeJob, collate: str, named: str) -> None:
    (made,) = _made(job, collate, named)
    assert isinstance(made, Fix)


@pytest.mark.parametrize(
    ("collate", "named"), [(CHOSEN, "collate"), (OF_A_MODEL, "partial(collate, model)"), (SET_ANEW, "collate")]
)
def test_a_device_that_may_be_a_gpu(job: MakeJob, collate: str, named: str) -> None:
    for made in _made(job, collate, named):  # none where the loader certainly uses the GPU
        assert isinstance(made, Declined)
        assert "device" in made.reason
