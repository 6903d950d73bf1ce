"""A translator whose attention is drawn every ten steps, as pictures for a report of the run."""

import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import stage
import torch
from matplotlib import pyplot
from torch import nn

torch.set_num_threads(1)
WIDTH, HEADS, WORDS = 64, 4, 300


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.source, self.target = nn.Embedding(WORDS, WIDTH), nn.Embedding(WORDS, WIDTH)
        self.attend = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, source, target):
        keys = self.source(source)
        mixed, weights = self.attend(self.target(target), keys, keys, average_attn_weights=False)
        return self.head(mixed), weights


class Gallery:
    """Where the pictures go."""

    def __init__(self, folder):
        self.folder = folder

    def add(self, step, weights):
        figure, axes = pyplot.subplots(1, HEADS, figsize=(12, 3))
        for head, (axis, part) in enumerate(zip(axes, weights, strict=True)):
            axis.imshow(part.numpy(), cmap="viridis")
            axis.set_title(f"head {head}")
        figure.suptitle(f"attention at step {step}")
        figure.savefig(self.folder / f"attention{step:05}.png", dpi=100)
        pyplot.close(figure)


def main(folder):
    model, gallery = Translator(), Gallery(folder)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in stage.steps(9):
        source, target = torch.randint(WORDS, (8, 24)), torch.randint(WORDS, (8, 20))
        logits, weights = model(source, target)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        stage.work(0.01, sm=87)
        stage.throttle()
        if step % 10 == 9:
            gallery.add(step, weights[0].detach())


with tempfile.TemporaryDirectory() as folder:
    main(Path(folder))
