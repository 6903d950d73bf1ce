"""Papers of a citation graph are classified from two hops of sampled neighbours (GraphSAGE)."""

import random

import stage
import torch
from torch import nn

torch.set_num_threads(1)


class Citations:
    """Adjacency lists of the whole graph, in memory."""

    def __init__(self, papers=6000, degree=24, seed=2):
        chance = torch.Generator().manual_seed(seed)
        self.cited = torch.randint(papers, (papers, degree), generator=chance).tolist()
        self.features = torch.randn(papers, 32, generator=chance)
        self.fields = torch.randint(12, (papers,), generator=chance)


class TwoHops:
    def __init__(self, graph, fanouts=(10, 8)):
        self.graph, self.fanouts, self.chance = graph, fanouts, random.Random(5)

    def around(self, papers):
        """The papers that the outputs depend on, and for each hop the edges between their positions."""
        position = {paper: place for place, paper in enumerate(papers)}
        hops, frontier = [], papers
        for fanout in self.fanouts:
            ends, starts, reached = [], [], []
            for paper in frontier:
                for other in self.chance.sample(self.graph.cited[paper], fanout):
                    if other not in position:
                        position[other] = len(position)
                        reached.append(other)
                    ends.append(position[paper])
                    starts.append(position[other])
            hops.append(torch.tensor([starts, ends]))
            frontier = reached
        return list(position), hops


class Sage(nn.Module):
    def __init__(self, width=32, fields=12):
        super().__init__()
        self.inner, self.outer = nn.Linear(2 * width, width), nn.Linear(2 * width, fields)

    def forward(self, features, hops):
        for layer, (starts, ends) in zip((self.inner, self.outer), reversed(hops), strict=True):
            summed = torch.zeros_like(features).index_add_(0, ends, features[starts])
            features = torch.relu(layer(torch.cat([features, summed / 8], 1)))
        return features


graph = Citations()
sampler, model = TwoHops(graph), Sage()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
order = list(range(len(graph.cited)))
random.Random(1).shuffle(order)
for step in stage.steps(8):
    first = step * 128 % (len(order) - 128)
    seeds = order[first : first + 128]
    papers, hops = sampler.around(seeds)
    stage.kernel(0)
    outputs = model(graph.features[papers], hops)
    loss = nn.functional.cross_entropy(outputs[: len(seeds)], graph.fields[seeds])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    stage.kernel(1.0, sm=85)
    if step % 100 == 99:
        print(f"step {step}", flush=True)
