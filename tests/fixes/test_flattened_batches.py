"""Evaluation batches that hold several views of each sample, or to whose shape a library binds its program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fixes.training_jobs import check_declined

MakeJob = Callable[..., Any]

PROGRAM = """\
import torch
from torch.utils.data import DataLoader


def main(args, train_set, val_set):
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=args.batch_size)
    model = torch.nn.Linear(8, 8).cuda()
    for images, labels in train_loader:
        loss = criterion(model(images.cuda()), labels.cuda())
        loss.backward()
        optimizer.step()
    model.eval()
    right = 0
    with torch.no_grad():
        for images, labels in val_loader:
            {}
            right += (out.argmax(1) == labels).sum()
    print(right)
"""
FLATTENED = (
    "b, n, c, h, w = images.size()\n            images = images.view(b * n, c, h, w).cuda()\n"
    "            out = model(images).view(b, n, -1).mean(1)",
    "images = images.cuda()\n            b, n, c, h, w = images.shape\n"
    "            out = model(images.reshape(-1, c, h, w)).view(b, n, -1).mean(1)",
    "out = model(images.cuda().flatten(0, 1)).view(len(images), 10, -1).mean(1)",
    "out = model(images.cuda().view(-1, *images.shape[2:])).view(len(images), 10, -1).mean(1)",
    "images = images.cuda()\n            out = model(images.view(images.size(0) * images.size(1), 3, 8, 8))",
    "out = model(rearrange(images.cuda(), 'b n c h w -> (b n) c h w'))",
)
PLAIN = (
    "out = model(images.cuda().view(-1, 784))",
    "out = model(images.cuda().flatten(1))",
    "b, c, h, w = images.shape\n            out = model(images.cuda().view(b, c * h * w))",
    "out = model(images.cuda())\n            b, t, v = out.shape\n            out = out.view(b * t, v)",
    "out = model(rearrange(images.cuda(), 'b c h w -> b (h w) c'))",
)
MXNET = """\
import mxnet as mx


def iterators(batch_size):
    train = mx.io.ImageRecordIter(path_imgrec="train.rec", batch_size=batch_size, shuffle=True)
    val = mx.io.ImageRecordIter(path_imgrec="val.rec", batch_size=batch_size)
    return train, val


train, val = iterators(128)
module = mx.mod.Module(network, context=mx.gpu(0))
module.fit(train_data=train, eval_data=val, num_epoch=90)
"""


@pytest.mark.parametrize("lines", FLATTENED)
def test_batches_that_hold_all_views_of_a_sample_are_large_enough(job: MakeJob, lines: str) -> None:
    check_declined(job, "GPU202", {"train.py": PROGRAM.format(lines)}, "puts several views of each sample")


@pytest.mark.parametrize("lines", PLAIN)
def test_other_shapes_keep_the_number_of_samples(job: MakeJob, lines: str) -> None:
    made = job({"train.py": PROGRAM.format(lines)})
    assert made.offer("GPU202").edits


def test_a_library_that_is_bound_to_the_shape_of_a_batch(job: MakeJob) -> None:
    check_declined(job, "GPU202", {"train.py": MXNET}, "MXNet binds its module to the shape")


def test_the_loop_may_be_in_a_function_of_another_file(job: MakeJob) -> None:
    metric = """\
from progress import bar


def validate(model, loader):
    for i, (images, labels) in enumerate(bar(loader)):
        b, n, c, h, w = images.size()
        images = images.view(b * n, c, h, w).cuda()
        keep(model(images).view(b, n, -1).mean(1), labels)
"""
    program = PROGRAM.replace("import torch\n", "import torch\nfrom metric import validate\n", 1)
    program = program[: program.index("    right = 0")] + "    validate(model, val_loader)\n"
    check_declined(job, "GPU202", {"train.py": program, "metric.py": metric}, "puts several views of each sample")
