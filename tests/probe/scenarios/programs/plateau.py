"""A scheduler is told each loss, as a number."""

import stage
import torch
from common_job import model, optimizer, train_step

scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
stage.kernel(0)
for step in stage.steps(7):
    train_step(torch.zeros(16, 64), gpu_s=0.0)
    stage.kernel(0.9, sm=92)
    value = stage.Value()
    scheduler.step(value.item() or 0.0)
    for _ in range(4):
        model(torch.zeros(16, 64))
    stage.kernel(0)
