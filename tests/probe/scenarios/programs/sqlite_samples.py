"""Samples are rows of a database without an index: each query looks at all of them."""

import sqlite3

import stage
import torch
from common_job import model, optimizer


class Store:
    def __init__(self, rows=30_000):
        self.base = sqlite3.connect(":memory:")
        self.base.execute("create table sample (name text, a real, b real)")
        self.base.executemany("insert into sample values (?, ?, ?)", ((f"n{at}", at, -at) for at in range(rows)))

    def find(self, name):
        return self.base.execute("select a, b from sample where name like ?", (name,)).fetchone()


store = Store()
for step in stage.steps(7):
    rows = [store.find(f"n{(step * 8 + at) % 30_000}") for at in range(4)]
    batch = torch.tensor(rows).repeat(1, 32)
    stage.kernel(0)
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    stage.kernel(0.9, sm=92)
