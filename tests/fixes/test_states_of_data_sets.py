"""Data sets that change while they make their samples, of which each worker would have a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

MakeJob = Callable[..., Any]

TRAIN = """\
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms.functional import to_tensor


class Images(Dataset):
    def __init__(self, files):
        self.files = files
        self.kept = {{}}
        self.failed = []

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        {body}


def main(files):
    data = Images(files)
    loader = DataLoader(data, batch_size=16, shuffle=True)
    model = torch.nn.Conv2d(3, 1, 3).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(20):
        for images in loader:
            loss = model(images.cuda()).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print({read})


if __name__ == "__main__":
    main(open("files.txt").read().split())
"""
LOADED = "to_tensor(Image.open(self.files[index]))"
KEEPS = f"""\
if index not in self.kept:
            self.kept[index] = {LOADED}
        return self.kept[index]"""
COUNTS = f"""\
try:
            return {LOADED}
        except OSError:
            self.failed.append(index)
            return self[0]"""


@pytest.mark.parametrize(
    ("body", "read", "reason"),
    [(KEEPS, "'done'", "keeps the samples"), (COUNTS, "data.failed", "changes `self.failed`, which the program reads")],
)
def test_changing_data_sets_get_no_workers(job: MakeJob, body: str, read: str, reason: str) -> None:
    assert reason in job({"train.py": TRAIN.format(body=body, read=read)}).refusal("GPU303")


def test_data_sets_that_nobody_reads_again_get_workers(job: MakeJob) -> None:
    assert job({"train.py": TRAIN.format(body=f"return {LOADED}", read="'done'")}).offer("GPU303").changes
    assert job({"train.py": TRAIN.format(body=COUNTS, read="'done'")}).offer("GPU303").changes


def test_data_sets_whose_threads_read_get_no_workers(job: MakeJob) -> None:
    text = TRAIN.replace("self.kept = {{}}", "self.kept = ThreadPoolExecutor(8)")
    text = text.replace("import torch\n", "from concurrent.futures import ThreadPoolExecutor\n\nimport torch\n", 1)
    body = f"return list(self.kept.map(Image.open, [self.files[index]]))[0], {LOADED}"
    refusal = job({"train.py": text.format(body=body, read="'done'")}).refusal("GPU303")
    assert "`self.kept` is run or filled by threads" in refusal
    assert job({"train.py": text.format(body=f"return {LOADED}", read="'done'")}).offer("GPU303").changes


def test_data_sets_that_mark_what_they_have_given_out_get_no_workers(job: MakeJob) -> None:
    text = TRAIN.replace("self.failed = []", "self.used = [[False] * len(files)]")
    marks = [
        "flags = self.used[0]\n        if flags[index]:\n            index = flags.index(False)\n        flags[index] = True",
        "while self.used[0][index]:\n            index += 1\n        self.used[0][index] = True",
        "for flags in self.used:\n            if flags[index] > 3:\n                index = 0\n            flags[index] += 1",
        "used = self.used[0][index]\n        if not used:\n            self.used[0][index] = 1",
    ]
    for mark in marks:
        made = job({"train.py": text.format(body=f"{mark}\n        return {LOADED}", read="'done'")})
        assert "what earlier ones set in `self.used`" in made.refusal("GPU303"), mark


def test_data_sets_that_only_count_or_open_what_they_read_get_workers(job: MakeJob) -> None:
    text = TRAIN.replace("self.failed = []", "self.used = [None] * len(files)")
    lines = [
        "self.used[index] = True",  # nothing reads it
        "used = [0] * 4\n        if used[0]:\n            used[0] = 1",
        "row = self.used[index]\n        row['seen'] = self.files[index]",
    ]
    for line in lines:
        made = job({"train.py": text.format(body=f"{line}\n        return {LOADED}", read="'done'")})
        assert made.offer("GPU303").changes, line
