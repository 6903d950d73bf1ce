"""The optimizer's state lives on the host: gradients go there and weights come back in each step."""

import functools
import time

import stage
import torch
from common_job import model


class Copied:
    """A tensor on the GPU, whose copies from and to pageable memory block."""

    def __init__(self, tensor):
        self.tensor = tensor
        self.copy_ = functools.partial(time.sleep, 0.005)

    def to(self, device):
        raise NotImplementedError


weights = [Copied(parameter) for parameter in model.parameters()]
moments = [torch.zeros_like(parameter) for parameter in model.parameters()]
for step in stage.steps(7):
    loss = model(torch.zeros(32, 64)).square().mean()
    loss.backward()
    stage.work(0.03, sm=92)
    stage.throttle(0.0)
    for weight, moment in zip(weights, moments, strict=True):
        moment.mul_(0.9).add_(weight.tensor.grad)
        weight.copy_()
        weight.tensor.grad = None
