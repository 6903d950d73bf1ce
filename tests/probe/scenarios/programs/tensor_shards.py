"""Shards of tensors are loaded one after another from a slow disk, between steps."""

import io
import time

import stage
import torch
from common_job import train_step


class Disk(io.BytesIO):
    def read(self, size=-1):
        time.sleep(0.03)
        return super().read(size)

    def readinto(self, buffer):
        time.sleep(0.03)
        return super().readinto(buffer)


packed = io.BytesIO()
torch.save([torch.randn(8, 64) for _ in range(12)], packed)


def examples():
    while True:
        yield from torch.load(Disk(packed.getvalue()))


for _, batch in zip(stage.steps(7), examples(), strict=False):
    train_step(batch, gpu_s=0.03, sm=92)
    stage.throttle()
