"""Long steps of a large model: the loss is read and printed after each of them, which costs next to nothing here."""

import math

import stage
import torch
from torch import nn

torch.set_num_threads(1)
model = nn.Sequential(
    nn.Embedding(128, 32), nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True), nn.Linear(32, 128)
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
corpus = torch.randint(128, (1 << 16,), generator=torch.Generator().manual_seed(9))
smoothed = math.log(128)
for step in range(22):
    starts = torch.randint(len(corpus) - 33, (2,)).tolist()
    batch = torch.stack([corpus[start : start + 33] for start in starts])
    logits = model(batch[:, :-1])
    stage.work(0.14, sm=94)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
    loss.backward()
    stage.work(0.28, sm=96)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    read = stage.Value()
    read.item()
    smoothed += 0.1 * (loss.item() - smoothed)
    print(f"step {step} | loss {smoothed:.3f}", flush=True)
