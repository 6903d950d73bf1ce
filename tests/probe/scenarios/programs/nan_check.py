"""Each loss is asked whether it is finite, which waits for the GPU."""

import functools
import threading

import stage
import torch
from common_job import train_step

_held = threading.Lock()
_held.acquire()


def tested(seconds):
    """What ``torch.isfinite(loss)`` gives: its truth is known once the kernels are done."""
    return type("Tensor", (), {"__bool__": functools.partial(_held.acquire, True, seconds)})()


torch.isfinite = lambda loss: tested(stage.left())
skipped = 0
for step in stage.steps(7):
    loss = train_step(torch.zeros(32, 64), gpu_s=0.012, sm=92)
    finite = torch.isfinite(loss)
    if not finite:
        skipped += 1
