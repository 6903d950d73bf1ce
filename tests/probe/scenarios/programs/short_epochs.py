"""Epochs of a few batches, and a loader whose processes start anew for each of them."""

import stage
import torch
from common_job import train_step
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    loader = DataLoader(TensorDataset(torch.zeros(48, 64)), batch_size=8, num_workers=3)
    for epoch in stage.steps(8):
        for (batch,) in loader:
            train_step(batch, gpu_s=0.02, sm=92)
