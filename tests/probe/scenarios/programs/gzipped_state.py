"""Depth from single pictures; what it takes to resume is compressed and kept after each round of twenty steps."""

import gzip
import tempfile
from pathlib import Path

import stage
import torch
from torch import nn

torch.set_num_threads(1)


class Run:
    """What belongs to a run that can be taken up again."""

    def __init__(self, folder):
        self.folder, self.round = folder, 0
        self.network = nn.Sequential(
            nn.Conv2d(3, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 1, 3, padding=1), nn.Flatten(), nn.Linear(576, 3072),
            nn.ReLU(), nn.Linear(3072, 576),
        )  # fmt: skip
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=1e-3, momentum=0.9)

    def keep(self):
        """Leave a file to resume from, as small as can be: quota is short."""
        with gzip.open(self.folder / f"round{self.round}.pt.gz", "wb") as file:
            torch.save({"network": self.network.state_dict(), "round": self.round}, file)

    def step(self, pictures, depths):
        loss = nn.functional.l1_loss(self.network(pictures), depths)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        stage.work(0.025, sm=90)
        stage.throttle()


def main(folder, rounds=9):
    run = Run(folder)
    pictures, depths = torch.rand(4, 3, 24, 24), torch.rand(4, 576)
    for run.round in range(rounds):
        for _ in range(20):
            run.step(pictures, depths)
        run.keep()


with tempfile.TemporaryDirectory() as folder:
    main(Path(folder))
