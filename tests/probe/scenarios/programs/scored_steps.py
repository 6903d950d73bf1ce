"""The model is scored on a few held-out batches in each step, inline in the loop."""

import stage
import torch
from common_job import model, train_step

train = [torch.randn(16, 64) for _ in range(20)]
kept = [torch.randn(16, 64) for _ in range(72)]
best = float("inf")
for step in stage.steps(7):
    train_step(train[step % len(train)], gpu_s=0.01, sm=92)
    stage.throttle(0.0)
    model.eval()
    with torch.no_grad():
        total = 0.0
        for images in kept:
            for _ in range(4):
                images = model(images)
            total += images.square().mean()
            stage.work(0.0002, sm=30)
    model.train()
    best = min(best, float(total))
