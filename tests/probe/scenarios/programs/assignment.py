"""Predictions are matched to targets on the CPU, in plain Python, between the forward pass and the loss."""

import random

import stage
import torch
from torch import nn

torch.set_num_threads(1)
random.seed(1)
detector = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 40))
optimizer = torch.optim.SGD(detector.parameters(), lr=0.01)


def cheapest(costs):
    """The cheapest pairs first, each row and column once."""
    pairs, rows, columns = [], set(), set()
    ordered = sorted((cost, row, column) for row, line in enumerate(costs) for column, cost in enumerate(line))
    for _, row, column in ordered:
        if row not in rows and column not in columns:
            rows.add(row)
            columns.add(column)
            pairs.append((row, column))
    return pairs


images = [torch.randn(16, 64) for _ in range(20)]
targets = [[random.random() for _ in range(40)] for _ in range(20)]
for step in stage.steps(7):
    stage.kernel(0)
    boxes = detector(images[step % 20])
    found = boxes.detach().reshape(-1)[:120].tolist()
    costs = [[abs(one - other) for other in targets[step % 20]] for one in found]
    pairs = cheapest(costs)
    chosen = boxes.reshape(-1)[[row for row, _ in pairs]]
    wanted = torch.tensor([targets[step % 20][column] for _, column in pairs])
    loss = (chosen - wanted).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    stage.kernel(0.2, sm=92)
