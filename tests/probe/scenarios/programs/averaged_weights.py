"""A moving average of the weights is kept, one tensor after another, and takes longer than the step itself."""

import copy

import stage
import torch
from torch import nn

torch.set_num_threads(1)
model = nn.Sequential(*(nn.Sequential(nn.Linear(32, 32), nn.LayerNorm(32), nn.GELU()) for _ in range(12)))
average = copy.deepcopy(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def follow(target, source, rate=0.999):
    with torch.no_grad():
        for old, new in zip(target.parameters(), source.parameters(), strict=True):
            old.mul_(rate)
            old.add_(new.detach() * (1 - rate))
        for old, new in zip(target.buffers(), source.buffers(), strict=True):
            old.copy_(new)


for step in stage.steps(7):
    stage.kernel(0)
    loss = model(torch.zeros(8, 32)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    stage.kernel(0.7, sm=60)
    for _ in range(6):
        follow(average, model)
    stage.kernel(0.3, sm=15)
