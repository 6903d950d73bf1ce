"""Settings of workers that reach a loader of another framework, whose samples are made on the GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpulint.fix import Declined, Fix

MakeJob = Callable[..., Any]

PROGRAM = """\
import argparse

import paddle
from views import make_transform

parser = argparse.ArgumentParser()
parser.add_argument("--num_workers", type=int)
args = parser.parse_args()
paddle.device.set_device("gpu")
data_set = Photos(make_transform())
loader = paddle.io.DataLoader(data_set, batch_size=64, num_workers=args.num_workers)
for epoch in range(90):
    for images, labels in loader:
        criterion(model(images), labels).backward()
        optimizer.step()
"""
TWIN = """\
import argparse

import torch
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--num_workers", type=int)
args = parser.parse_args()
loader = DataLoader(Photos(paths), batch_size=64, num_workers=args.num_workers)
model = model.cuda()
for epoch in range(90):
    for images, labels in loader:
        criterion(model(images.cuda()), labels.cuda()).backward()
        optimizer.step()
"""
NORMALIZED = """\
import paddle
from paddle.vision import transforms


def make_transform():
    mean = (0.5, 0.5, 0.5)
    return transforms.Compose([transforms.ToTensor(), transforms.Normalize(mean=MEAN, std=0.2)])
"""
PER_SAMPLE = """\
import paddle


class Scaled:
    def __call__(self, image):
        return paddle.to_tensor(image) / 255


def make_transform():
    return Scaled()
"""
START = "#!/bin/bash\n#SBATCH --gres=gpu:1\npython train.py --num_workers 0\n"
TENSOR = NORMALIZED.replace("MEAN", "paddle.to_tensor(mean)")
NUMBERS = NORMALIZED.replace("MEAN", "mean")
ON_HOST = NORMALIZED.replace("MEAN", "paddle.to_tensor(mean, place=paddle.CPUPlace())")
OF_TARGETS = NUMBERS + "\n\ndef weights_of(counts):\n    return paddle.to_tensor(counts)\n"


def _fix(job: MakeJob, views: str) -> Any:
    files = {"paddled/train.py": PROGRAM, "paddled/views.py": views, "paddled/scripts/run.sh": START}
    more = {"torched/train.py": TWIN, "torched/run.sh": START.replace("0", "8")}
    results = job({**files, **more}).scan("GPU303")
    (fix,) = [result.fix for result in results if result.finding.path.name == "run.sh"]
    return fix


@pytest.mark.parametrize("views", [TENSOR, PER_SAMPLE])
def test_samples_on_the_gpu(job: MakeJob, views: str) -> None:
    fix = _fix(job, views)
    assert isinstance(fix, Declined)
    assert "`paddle.to_tensor` makes on the GPU by default" in fix.reason


@pytest.mark.parametrize("views", [NUMBERS, ON_HOST, OF_TARGETS])
def test_samples_on_the_host(job: MakeJob, views: str) -> None:
    assert isinstance(_fix(job, views), Fix)


def test_the_script_of_a_twin(job: MakeJob) -> None:
    files = {"paddled/train.py": PROGRAM, "paddled/views.py": TENSOR, "torched/train.py": TWIN, "torched/run.sh": START}
    results = job(files).scan("GPU303")
    (fix,) = [result.fix for result in results if result.finding.path.name == "run.sh"]
    assert isinstance(fix, Fix), [(result.finding.path, result.finding.message) for result in results]
