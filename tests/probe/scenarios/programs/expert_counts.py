"""A mixture of experts: each layer reads on the host how many tokens go to each expert, to split them."""

import stage
import torch
from torch import nn

torch.set_num_threads(1)


def read(counts):
    """The numbers, once the kernels before them are done."""
    on_gpu = stage.Value()
    on_gpu.tolist = on_gpu.item
    on_gpu.tolist()
    return counts.tolist()


class Experts(nn.Module):
    def __init__(self, width=48, experts=4):
        super().__init__()
        self.norm, self.router = nn.LayerNorm(width), nn.Linear(width, experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(experts)
        )

    def forward(self, tokens):
        scores = self.router(self.norm(tokens)).softmax(-1)
        weight, chosen = scores.max(-1)
        order = chosen.argsort()
        counts = torch.bincount(chosen, minlength=len(self.experts))
        stage.kernel(1.0, sm=86)  # the kernels take as long as their launches
        parts = tokens[order].split(read(counts))
        stage.kernel(0)
        outputs = torch.cat([expert(part) for expert, part in zip(self.experts, parts, strict=True)])
        return tokens + weight.unsqueeze(-1) * outputs[order.argsort()]


class Model(nn.Module):
    def __init__(self, words=200, width=48, layers=6):
        super().__init__()
        self.words, self.head = nn.Embedding(words, width), nn.Linear(width, words)
        self.layers = nn.ModuleList(Experts(width) for _ in range(layers))

    def forward(self, tokens):
        x = self.words(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in stage.steps(8):
    tokens = torch.randint(200, (192,))
    stage.kernel(0)
    logits = model(tokens)
    loss = nn.functional.cross_entropy(logits[:-1], tokens[1:])
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    stage.kernel(1.0, sm=86)
    if step % 50 == 49:
        print(f"step {step}", flush=True)
