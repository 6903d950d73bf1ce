"""Samples and batches that processes make together by messages: workers are none of these processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Declined, Fix

MakeJob = Callable[..., Any]

PROGRAM = """\
import torch
import torch.distributed as dist
from mpi4py import MPI
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from shared_store import Store


class Photos(Dataset):
    def __init__(self, paths, comm=MPI.COMM_WORLD):
        self.paths = paths
        self.comm = comm
        self.rank = self.comm.Get_rank()
        self.part = self.comm.Split(self.rank, 0)
        self.store = Store(self.part)
        self.total = self.comm.allreduce(len(paths), op=MPI.SUM)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        SAMPLE


def collate(batch):
    BATCH
    return torch.stack(batch)


loader = DataLoader(DATA, batch_size=64, shuffle=True, collate_fn=collate)
model = model.cuda()
for epoch in range(90):
    for x in loader:
        criterion(model(x.cuda(non_blocking=True))).backward()
        optimizer.step()
"""
READ = "return load(Image.open(self.paths[index]))"


def _made(job: MakeJob, sample: str, batch: str, data: str) -> Any:
    text = PROGRAM.replace("SAMPLE", sample).replace("BATCH", batch).replace("DATA", data)
    (result,) = job({"train.py": text}).scan("GPU303")
    return result.fix


@pytest.mark.parametrize(
    ("sample", "batch", "data"),
    [
        (READ, "MPI.COMM_WORLD.Barrier()", "Photos(paths)"),
        (READ, "dist.barrier()", "Photos(paths)"),
        ("return load(self.store.get(index))", "", "Photos(paths)"),
        ("return load(self.comm.bcast(self.paths[index]))", "", "Photos(paths)"),
        (READ, "", "RemotePhotos(paths, MPI.COMM_WORLD)"),
    ],
)
def test_messages_of_processes(job: MakeJob, sample: str, batch: str, data: str) -> None:
    made = _made(job, sample, batch, data)
    assert isinstance(made, Declined)
    assert "exchanges messages" in made.reason


@pytest.mark.parametrize("data", ["Photos(paths)", "RemotePhotos(paths, MPI.COMM_WORLD.Get_rank())"])
def test_a_rank_is_no_message(job: MakeJob, data: str) -> None:
    made = _made(job, "return load(Image.open(self.paths[index]), self.rank, self.total)", "", data)
    assert isinstance(made, Fix)
