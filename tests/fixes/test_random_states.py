"""What a fix says of the random numbers that workers change: those of the samples, and the order of later epochs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

MakeJob = Callable[..., Any]

PROGRAM = """\
import random

import torch
import torch.distributed as dist
from PIL import Image
from torch.utils.data import BatchSampler, DataLoader, Dataset, DistributedSampler, RandomSampler, Sampler
from torch.utils.data import SequentialSampler, SubsetRandomSampler
from torchvision import transforms
from torchvision.datasets import ImageFolder


def decoded(path):
    return Image.open(path).resize((224, 224))


class Photos(Dataset):
    def __init__(self, paths, transform=None):
        self.paths = paths
        self.transform = transform

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        SAMPLE


class ByLength(Sampler):
    def __init__(self, lengths):
        self.lengths = lengths
        self.epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        order = torch.Generator().manual_seed(self.epoch)
        return iter(torch.randperm(len(self.lengths), generator=order).tolist())


class Shuffled(Sampler):
    def __iter__(self):
        return iter(torch.randperm(10).tolist())


def main():
    photos = DATA
    draws = torch.Generator().manual_seed(1)
    chosen = DistributedSampler(photos) if dist.is_initialized() else None
    loader = DataLoader(photos, ORDER, pin_memory=True)
    model.cuda()
    for epoch in range(10):
        for images, labels in loader:
            model(images.cuda(non_blocking=True)).mean().backward()
            optimizer.step()


if __name__ == "__main__":
    main()
"""
PLAIN = "return decoded(self.paths[index]), index"
OWN = "Photos(paths)"
SIZED = "batch_size=64"


def _said(job: MakeJob, sample: str, data: str, order: str, code: str = "GPU303") -> str:
    text = PROGRAM.replace("SAMPLE", sample).replace("DATA", data).replace("ORDER", order)
    description = job({"train.py": text}).offer(code).description
    assert isinstance(description, str)
    return description


ORDERS = [
    (f"{SIZED}, sampler=DistributedSampler(photos)", False),
    (f"{SIZED}, sampler=RandomSampler(photos, generator=draws)", False),
    (f"{SIZED}, sampler=SequentialSampler(photos)", False),
    (f"{SIZED}, sampler=ByLength(lengths)", False),
    ("batch_sampler=BatchSampler(RandomSampler(photos, generator=draws), 64, False)", False),
    (f"{SIZED}, sampler=chosen, shuffle=False", False),
    (f"{SIZED}, sampler=chosen, shuffle=chosen is None", True),
    (f"{SIZED}, sampler=RandomSampler(photos)", True),
    (f"{SIZED}, sampler=SubsetRandomSampler(kept, generator=None)", True),
    (f"{SIZED}, sampler=Shuffled(photos)", True),
    ("batch_sampler=BatchSampler(RandomSampler(photos), 64, False)", True),
    (f"{SIZED}, shuffle=True", True),
]


@pytest.mark.parametrize(("order", "says"), ORDERS)
def test_lasting_workers_change_the_order_of_samplers_that_share_the_state(
    job: MakeJob, order: str, says: bool
) -> None:
    described = _said(job, PLAIN, OWN, order)
    assert ("later epochs are shuffled differently" in described) is says
    assert "stay alive" in described


@pytest.mark.parametrize(("order", "says"), ORDERS[:1] + ORDERS[-1:])
def test_workers_that_are_kept_change_it_as_well(job: MakeJob, order: str, says: bool) -> None:
    described = _said(job, PLAIN, OWN, f"{order}, num_workers=4", "GPU304")
    assert ("later epochs are shuffled differently" in described) is says


@pytest.mark.parametrize(
    ("sample", "data", "draws"),
    [
        (PLAIN, OWN, False),
        ("return Image.open(self.paths[index]).convert('RGB'), torch.tensor(index)", OWN, False),
        ("return decoded(random.choice(self.paths)), index", OWN, True),
        ("return self.transform(decoded(self.paths[index])), index", "Photos(paths, chain)", True),
        ("return decoded(self.paths[index]) + torch.randn(3), index", OWN, True),
        (PLAIN, "ImageFolder('photos', transforms.RandomCrop(224))", True),
        (PLAIN, "ImageFolder('photos', transforms.Resize(224))", False),
        (PLAIN, "ImageFolder('photos', transform=transforms.Compose([transforms.ToTensor()]))", False),
        (PLAIN, "ImageFolder('photos', transform=transforms.Resize(224), loader=jittered)", True),
    ],
)
def test_samples_that_draw_no_numbers_have_no_random_states(job: MakeJob, sample: str, data: str, draws: bool) -> None:
    assert ("random states" in _said(job, sample, data, "batch_size=64, shuffle=True")) is draws
    lasting = "batch_size=64, shuffle=True, persistent_workers=False"
    assert ("shuffled differently" in _said(job, sample, data, lasting)) is draws


def test_a_sampler_need_not_be_sent_to_workers(job: MakeJob) -> None:
    order = "batch_size=64, sampler=Weighted(photos, key=lambda index: index)"
    assert "sampler" not in _said(job, PLAIN, OWN, order)
    assert "`worker_init_fn`" in _said(job, PLAIN, OWN, "batch_size=64, worker_init_fn=lambda worker: None")
