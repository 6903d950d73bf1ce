"""A line of JSON with many figures is formatted and written in each step."""

import json
import tempfile

import stage
import torch
from common_job import model, optimizer

file = tempfile.TemporaryFile("w")  # noqa: SIM115


def describe(step, figures):
    row = {"step": step, "when": step * 0.1}
    for name, values in figures.items():
        row[name] = {
            f"p{percent}": round(sorted(values)[percent * len(values) // 100], 4) for percent in range(0, 100, 10)
        }
    file.write(json.dumps(row, indent=1, sort_keys=True) + "\n")


figures = {f"layer{number}/norm": [((number * 37 + at * 11) % 97) / 97 for at in range(100)] for number in range(12)}
for step in stage.steps(7):
    stage.kernel(0)
    loss = model(torch.zeros(32, 64)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    stage.kernel(0.9, sm=92)
    describe(step, figures)
