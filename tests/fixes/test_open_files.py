"""Data sets that hold an open file, itself or in an object of their own, before workers start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

MakeJob = Callable[..., Any]

PROGRAM = """\
import h5py
import numpy as np
from PIL import Image
from torch.utils.data import DataLoader, Dataset


class Store:
    def __init__(self, path):
        self.path = path
        self.handle = h5py.File(path, "r")

    def get(self, key):
        return self.handle[key][()]


class Names:
    def __init__(self, path):
        with h5py.File(path, "r") as file:
            self.names = file["names"][:]

    def get(self, key):
        return self.names[key]


class Pairs(Dataset):
    def __init__(self, paths, contacts=None, store=None):
        self.paths = paths
        self.contacts = contacts
        {kept}

    def _open(self):
        self.store = h5py.File(self.contacts, "r")

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        if self.store is None:
            self._open()
        return np.array(Image.open(self.paths[index])), self.store.get(index)


def main(paths):
    loader = DataLoader(Pairs(paths, {given}), batch_size=64)
    for epoch in range(90):
        for images, contacts in loader:
            criterion(model(images.cuda()), contacts).backward()
            optimizer.step()


if __name__ == "__main__":
    main(sorted(names()))
"""


def program(kept: str, given: str = "'contacts.h5'") -> dict[str, str]:
    return {"train.py": PROGRAM.format(kept=kept, given=given)}


@pytest.mark.parametrize(
    ("kept", "given"),
    [
        ("self.store = Store(contacts) if contacts else None", "'contacts.h5'"),
        ("self.store = store or Store(contacts)", "'contacts.h5'"),
        ("self.store = store", "store=Store('contacts.h5')"),
        ("self._open()", "'contacts.h5'"),
    ],
)
def test_no_worker_shares_an_open_file(job: MakeJob, kept: str, given: str) -> None:
    assert "opens a file before its workers start" in job(program(kept, given)).refusal("GPU303")


@pytest.mark.parametrize(
    ("kept", "given"),
    [
        ("self.store = Names(contacts) if contacts else None", "'contacts.h5'"),
        ("self.store = store", "store=Names('contacts.h5')"),
        ("self.store = None", "'contacts.h5'"),
        ("self._open()\n        self.size = len(self.store)\n        self.store = None", "'contacts.h5'"),
    ],
)
def test_workers_open_their_files(job: MakeJob, kept: str, given: str) -> None:
    assert job(program(kept, given)).offer("GPU303").changes
