"""Byte pairs are merged in plain Python for each text when its turn comes."""

from itertools import pairwise

import stage
import torch
from common_job import model, optimizer

TEXTS = [("the cat sat on the mat and then the dog came along " * 2 + str(n)) for n in range(100)]
MERGES = [("t", "h"), ("th", "e"), ("a", "t"), ("a", "n"), ("an", "d"), ("o", "n"), ("e", "n"), ("a", "m")]


class Codec:
    def __init__(self, merges):
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}
        self.known = {}

    def encode(self, text):
        parts = list(text)
        while True:
            pairs = [(self.ranks.get(pair, 99), at) for at, pair in enumerate(pairwise(parts))]
            rank, at = min(pairs)
            if rank == 99:
                return [self.known.setdefault(part, len(self.known)) for part in parts]
            parts[at : at + 2] = [parts[at] + parts[at + 1]]


codec = Codec(MERGES)
for step in stage.steps(7):
    rows = []
    for text in TEXTS[step % 90 : step % 90 + 4]:
        ids = torch.tensor(codec.encode(text))
        rows.append(torch.nn.functional.pad(ids.float(), (0, 128 - len(ids)))[:64])
    tokens = torch.stack(rows)
    stage.kernel(0)
    loss = model(tokens).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    stage.kernel(0.9, sm=92)
