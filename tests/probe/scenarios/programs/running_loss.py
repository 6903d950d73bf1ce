"""The mean loss is kept as a Python number."""

import functools
import threading

import stage
import torch
from common_job import train_step

_held = threading.Lock()
_held.acquire()


def loss_of(seconds):
    """A loss whose number is known once the kernels are done; ``int()`` waits as ``float()`` of a tensor does."""
    return type("Tensor", (), {"__index__": functools.partial(_held.acquire, True, seconds)})()


torch.nn.functional.l1_loss = lambda *_: loss_of(stage.left())
running = 0
for step in stage.steps(7):
    train_step(torch.zeros(32, 64), gpu_s=0.012, sm=92)
    loss = torch.nn.functional.l1_loss(step, step)
    running += int(loss)
    if step % 50 == 49:
        print(f"mean loss {running / step}", flush=True)
