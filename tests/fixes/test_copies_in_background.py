"""A wait at the end of a program that lets copies in the background finish is left where it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

MakeJob = Callable[..., Any]

SAVING = """\
import os
import subprocess


class Saver:
    def __init__(self):
        self.copying = None

    def save(self, source, target):
        if self.copying is not None:
            self.copying.wait()

        def copied(name):
            command = f"cp -r {name} {target}"
            START

        copied(source)
MORE"""
TRAIN = """\
import time

import torch
from saving import Saver

model = torch.nn.Linear(2, 2).cuda()
for x in loader:
    loss = model(x.cuda()).sum()
    loss.backward()
    optimizer.step()
Saver().save("last.pt", "/mnt/backup")
time.sleep(120)
"""
_CLOSE = "\n    def close(self):\n        self.copying.wait()\n"


def _job(job: MakeJob, start: str, more: str = "") -> Any:
    return job({"train.py": TRAIN, "saving.py": SAVING.replace("START", start).replace("MORE", more)})


@pytest.mark.parametrize(
    "start",
    [
        "self.copying = subprocess.Popen(command, shell=True)",
        "subprocess.Popen(['rsync', '-a', name, target])",
        "os.system(f'cp {name} {target} &')",
    ],
)
def test_the_wait_lets_a_copy_end(job: MakeJob, start: str) -> None:
    assert "the copy that saving.py:15 starts in the background" in _job(job, start).refusal("GPU105")


@pytest.mark.parametrize(
    ("start", "more"),
    [
        ("subprocess.Popen(command, shell=True).wait()", ""),
        ("self.copying = subprocess.Popen(command, shell=True)", _CLOSE),
        ("subprocess.run(command, shell=True)", ""),
        ("os.system(f'mkdir {target} && cp {name} {target}')", ""),
        ("subprocess.Popen(['tensorboard', '--logdir', name])", ""),
    ],
)
def test_other_waits_are_removed(job: MakeJob, start: str, more: str) -> None:
    assert "end the job with its last computation" in _job(job, start, more).offer("GPU105").description
