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


ENVIRONMENT = """\
import lmdb
import numpy as np
from torch.utils.data import DataLoader, Dataset


class Frames(Dataset):
    def __init__(self, path):
        self.path = path
        {made}

    def _open(self):
        self.frames = lmdb.open(self.path)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if self.frames is None:
            self.frames = lmdb.open(self.path, readonly=True, lock=False)
        with self.frames.begin() as read:
            return np.frombuffer(read.get(str(index).encode()), dtype=np.float32).copy()


def main():
    loader = DataLoader(Frames("frames"), batch_size=64)
    for epoch in range(90):
        for images in loader:
            criterion(model(images.cuda())).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
"""
COUNT = "self.frames = lmdb.open(path)\n        self.count = self.frames.stat()['entries']\n        "


@pytest.mark.parametrize(
    "made",
    [
        COUNT + "self.frames.close()\n        self.frames = None",
        COUNT + "self.frames.close()\n        self.frames: object = None",
        COUNT + "self.frames = self.first = None\n        print(self.count)",
        "self._open()\n        " + COUNT + "self.frames = None",
        "if path:\n            self._open()\n        else:\n            self.frames = lmdb.open('x')\n"
        "        self.count = 9000\n        self.frames = None",
    ],
)
def test_what_a_constructor_gives_up_is_shared_with_no_worker(job: MakeJob, made: str) -> None:
    fix = job({"train.py": ENVIRONMENT.format(made=made)}).offer("GPU303")
    assert "lmdb" not in fix.description


@pytest.mark.parametrize(
    "made",
    [
        COUNT + "pass",
        "self.frames = None\n        " + COUNT + "pass",
        COUNT + "self.frames = None\n        self._open()",
        COUNT + "if path == 'x':\n            self.frames = None",
        COUNT + "if path == 'x':\n            return\n        self.frames = None",
        COUNT + "self.frames.close()\n        self.other = None",
    ],
)
def test_what_a_constructor_keeps_open_is_shared(job: MakeJob, made: str) -> None:
    assert "`self.frames` is an open file" in job({"train.py": ENVIRONMENT.format(made=made)}).refusal("GPU303")


PARTS = """\
import io

import h5py
import lmdb
import numpy as np
import torchvision.transforms as T
from PIL import Image
from torch.utils.data import DataLoader, Dataset

{module}


class Slides(Dataset):
    def __init__(self, images, count=5000):
        {kept}
        self.count = count
        self.prepare = T.Compose([T.ToPILImage(), T.ColorJitter(0.2), T.ToTensor()])

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.prepare(np.array(Image.open(io.BytesIO({read}))))


def main():
    {file}
    loader = DataLoader(Slides({given}), batch_size=64)
    for epoch in range(90):
        for images in loader:
            criterion(model(images.cuda())).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
"""


def slides(kept: str, read: str = "self.images[index]", given: str = "'slides.h5'", module: str = "") -> dict[str, str]:
    file = "file = h5py.File('slides.h5')" if "file" in given else "pass"
    return {"train.py": PARTS.format(module=module, kept=kept, read=read, given=given, file=file)}


@pytest.mark.parametrize(
    "program",
    [
        slides("file = h5py.File(images, 'r')\n        self.images = file['images']"),
        slides("file = h5py.File(images, 'r')\n        self.images = file['train']['images']"),
        slides("self.images = lmdb.open(images).begin()", "self.images.get(str(index).encode())"),
        slides("self.images = images", given="file['images']"),
        slides("self.images, self.first = images, 0", given="file['images']"),
        slides("pass", "scans[index]", module="scans = h5py.File('slides.h5')['images']"),
    ],
)
def test_no_worker_shares_a_part_of_an_open_file(job: MakeJob, program: dict[str, str]) -> None:
    assert "opens a file before its workers start" in job(program).refusal("GPU303")


@pytest.mark.parametrize(
    "program",
    [
        slides("file = h5py.File(images, 'r')\n        self.images = file['images'][:]"),
        slides("self.images = images[:]", given="file['images']"),
        slides("self.images, self.first = images[()], 0", given="file['images']"),
        slides("pass", "scans[index]", module="scans = h5py.File('slides.h5')['images'][:]"),
    ],
)
def test_parts_that_are_read_whole_are_in_each_worker(job: MakeJob, program: dict[str, str]) -> None:
    assert job(program).offer("GPU303").changes
