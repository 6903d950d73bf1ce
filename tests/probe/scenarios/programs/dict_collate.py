"""Samples are dictionaries of Python lists; the main process turns them into tensors, field by field."""

import random

import stage
import torch
from common_job import model, optimizer

random.seed(0)


def sample():
    boxes = [[random.random() for _ in range(4)] for _ in range(20)]
    return {"boxes": boxes, "labels": [int(box[0] * 80) for box in boxes], "area": [box[2] * box[3] for box in boxes]}


def pad(rows, length, value):
    return rows + [value] * (length - len(rows))


def batched(samples):
    out = {}
    for key in samples[0]:
        longest = max(len(entry[key]) for entry in samples)
        empty = [0.0] * 4 if key == "boxes" else 0
        rows = []
        for entry in samples:
            filled = pad(entry[key], longest + 4, empty)
            rows.append(torch.tensor(filled, dtype=torch.float32))
        out[key] = torch.stack(rows)
    return out


memory = [sample() for _ in range(500)]
for step in stage.steps(7):
    chosen = [memory[(step * 7 + at) % 500] for at in range(64)]
    shuffled = [{key: sorted(values, key=str) for key, values in entry.items()} for entry in chosen]
    batch = batched(shuffled)
    stage.kernel(0)
    loss = model(batch["area"][:, :24].repeat(1, 3)[:, :64]).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    stage.kernel(0.9, sm=92)
