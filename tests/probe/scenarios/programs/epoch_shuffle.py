"""Short epochs, before each of which a long list is put in a new order."""

import random

import stage
import torch
from common_job import model, optimizer

examples = [(number, number % 7) for number in range(40_000)]
for epoch in stage.steps(7):
    order = list(range(len(examples)))
    random.shuffle(order)
    weighted = sorted(order, key=lambda at: examples[at][1] * random.random())
    for start in range(0, 64, 16):
        batch = torch.tensor([examples[at] for at in weighted[start : start + 16]]).float().repeat(1, 32)
        stage.kernel(0)
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        stage.kernel(0.9, sm=92)
